"""What the page answers to a video, and which videos it takes."""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.engine.errors import describe
from mmvidformer.errors import UserError
from mmvidformer.sinks.film import annotate_video
from mmvidformer.sinks.timeline import draw_timeline
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.video import Video
from mmvidformer.video.writer import VideoOutput
from mmvidformer.visualization.heatmaps import rollout_clips

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
        UserError: If the file is too large, no video, too long, or has too many frames or pixels.
    """
    size = os.path.getsize(path) / 1e6
    if not size:
        raise BadVideo(path, "the file is empty")
    if size > limits.max_mb:
        raise UserError(f"a file must have at most {limits.max_mb:g} MB, got {size:.1f} MB")
    video = Video.open(path, max_pixels=MAX_PIXELS)
    frames = len(video)
    seconds = video.duration if video.get_avg_fps() else math.inf
    if seconds > limits.max_seconds:
        raise UserError(f"a video must have at most {limits.max_seconds:g} s, got {seconds:.1f} s")
    height, width = video.reader.stored_size
    full = min(1.0, FULL_HD / max(width * height, 1))
    most = int(limits.max_seconds * MAX_FPS * full)
    if frames > most:
        frame = f"{width} x {height} pixels"
        raise UserError(f"a video of {frame} must have at most {most} frames, got {frames}")
    return seconds


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
        UserError: If the video is refused, or cannot be read.
    """
    seconds = check_video(video, limits)
    if recognizer.task.needs_boxes:
        progress(0, "boxes of persons")
        boxes, film = list(recognizer.persons(video)), Path(folder, "boxes.mp4")
        annotate_video(Path(video), boxes, film)
        yield Answer(summary(recognizer, boxes), film=str(film))
        return
    has_windows = recognizer.task.has_windows
    window = max(WINDOW, seconds / MOST) if has_windows else None
    count = math.ceil(seconds / WINDOW)  # a guess, for the progress
    if has_windows:
        opened = recognizer.pipeline.open(video)
        windows = recognizer.windows(opened, window)
        count = len(windows)
    predictions = []
    for prediction in recognizer.timeline(video, window):
        predictions.append(prediction)
        progress(min(len(predictions) / count, 1), recognizer.task.part)
    name = Path(video).name
    picture = draw_timeline(predictions, name, duration=seconds) if predictions else None
    yield Answer(summary(recognizer, predictions), picture)
    if not has_windows or not predictions[0].probabilities:  # rollout shows a class of a window
        return
    progress(0, "attention rollout")
    shares = [prediction.top(1)[0][2] for prediction in predictions]
    surest, film = windows[shares.index(max(shares))], Path(folder, "rollout.mp4")
    sample = recognizer.pipeline.read(opened, surest.span)
    try:
        ((_, images),) = rollout_clips(recognizer, sample, Path(video).name)
    except ValueError as error:  # not defined for the model
        yield Answer(note=describe(error))
        return
    with VideoOutput(film, fps=4) as output:
        for image in images:
            output.add(image)
    yield Answer(film=str(film))


def summary(recognizer: Recognizer, predictions: list[Prediction]) -> dict[str, float] | str:
    """The answer for a whole video, as the task says."""
    return recognizer.task.summary(predictions, k=5) if predictions else "nothing found"
