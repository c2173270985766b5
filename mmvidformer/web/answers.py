"""What the page answers to a video, and which videos it takes."""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from matplotlib.figure import Figure

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.engine.errors import describe
from mmvidformer.video.video import Video
from mmvidformer.video.writer import VideoOutput
from mmvidformer.visualization.annotate import annotate_video, classify_boxes
from mmvidformer.visualization.heatmaps import rollout_clips
from mmvidformer.visualization.timeline import draw_timeline

WINDOW, MOST = 2.0, 8  # seconds of a window, and most windows without overlap
MAX_PIXELS = 4096 * 2304  # of a frame: decoded frames of a small file can be huge
# Frames per second of the longest video, and the pixels of a frame up to which they are allowed.
MAX_FPS, FULL_HD = 60, 1920 * 1080

Progress = Callable[[float, str], object]  # share that is done, and what is being done


class Limits(NamedTuple):
    """Largest size of a file in megabytes, and longest duration of a video in seconds."""

    max_mb: float = 100.0
    max_seconds: float = 60.0


class Answer(NamedTuple):
    """A part of what the page shows; None leaves a part as it is.

    Attributes:
        classes: Probabilities by class, or a text.
        timeline: Picture of the windows.
        film: Path of a film.
        note: What the reader should know.
    """

    classes: dict[str, float] | str | None = None
    timeline: Figure | None = None
    film: str | None = None
    note: str | None = None


def check_video(path: str, limits: Limits) -> float:
    """Return the seconds of a video; decodes nothing.

    Frames times pixels are limited, since they take the time: to 60 frames of 1920 x 1080 for each
    second of the longest video. Smaller frames count as much.

    Raises:
        ValueError: If the file is too large, no video, too long, or has too many frames or pixels.
    """
    size = os.path.getsize(path) / 1e6
    if not size:
        raise ValueError(f"{path} is empty")
    if size > limits.max_mb:
        raise ValueError(f"a file must have at most {limits.max_mb:g} MB, got {size:.1f} MB")
    try:
        video = Video.open(path, max_pixels=MAX_PIXELS)
        frames = len(video)
    except av.FFmpegError as error:
        raise ValueError(f"cannot read {path} as a video: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"cannot read {path} as a video: {error}") from error
    seconds = video.duration if video.get_avg_fps() else math.inf
    if seconds > limits.max_seconds:
        raise ValueError(f"a video must have at most {limits.max_seconds:g} s, got {seconds:.1f} s")
    height, width = video.reader.stored_size
    full = min(1.0, FULL_HD / max(width * height, 1))
    most = int(limits.max_seconds * MAX_FPS * full)
    if frames > most:
        frame = f"{width} x {height} pixels"
        raise ValueError(f"a video of {frame} must have at most {most} frames, got {frames}")
    return seconds


def classes_of(predictions: list[Prediction], k: int = 5) -> dict[str, float] | str:
    """Mean probabilities of the k most likely classes of each task, by name; or mean values.

    Of segments and boxes it is the highest score of each class.
    """
    if not predictions:
        return "nothing found"
    if predictions[0].kind == "value":
        means = {n: np.mean([one.values[n] for one in predictions]) for n in predictions[0].values}
        return ", ".join(f"{name} {value:.4g}" for name, value in means.items())
    found: dict[str, float] = {}
    average = np.max if predictions[0].kind == "segment" or predictions[0].box else np.mean
    for task, names in predictions[0].names.items():
        mean = average([one.probabilities[task] for one in predictions], axis=0)
        prefix = "" if len(predictions[0].names) == 1 else f"{task}: "
        found |= {prefix + names[i]: float(mean[i]) for i in np.argsort(-mean)[:k]}
    return found


def answer(
    recognizer: Recognizer, video: str, folder: str, limits: Limits, progress: Progress
) -> Iterator[Answer]:
    """Check and classify a video.

    Args:
        recognizer: The model.
        video: Path of the file.
        folder: Where films are written.
        limits: What is refused.
        progress: Called with the share that is done, and what is being done.

    Raises:
        ValueError: If the video is refused, or cannot be read.
    """
    seconds = check_video(video, limits)
    if recognizer.over == "boxes":
        progress(0, "boxes of persons")
        boxes, film = classify_boxes(recognizer, Path(video), "persons"), Path(folder, "boxes.mp4")
        annotate_video(Path(video), boxes, film)
        yield Answer(classes_of(boxes), film=str(film))
        return
    window = max(WINDOW, seconds / MOST) if recognizer.over == "clip" else None
    opened = recognizer.pipeline.open(video)
    parts = recognizer.windows(opened, window)
    found = []
    for prediction in recognizer.timeline(video, window):
        found.append(prediction)
        progress(min(len(found) / len(parts), 1), "windows")
    picture = draw_timeline(found, Path(video).name) if found else None
    yield Answer(classes_of(found), picture)
    if not window or found[0].kind == "value":  # rollout shows a class of a window
        return
    progress(0, "attention rollout")
    surest = max(range(len(found)), key=lambda i: found[i].top(1)[0][2])
    sample, film = recognizer.pipeline.read(opened, parts[surest]), Path(folder, "rollout.mp4")
    try:
        ((_, images),) = rollout_clips(recognizer, sample, Path(video).name)
    except ValueError as error:  # not defined for the model
        yield Answer(note=describe(error))
        return
    with VideoOutput(film, fps=4) as output:
        for image in images:
            output.add(image)
    yield Answer(film=str(film))
