"""What the page answers to a video, and which videos it takes."""

import csv
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.apis.heat import rollout_clips
from mmvidformer.apis.persons import TRACK_RATE
from mmvidformer.apis.tracks import has_package
from mmvidformer.engine.errors import describe
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.film import annotate_video
from mmvidformer.sinks.heatmaps import draw_clip
from mmvidformer.sinks.segments import SegmentsCsv
from mmvidformer.sinks.timeline import draw_timeline
from mmvidformer.video.video import Video
from mmvidformer.video.writer import VideoOutput

WINDOW, MOST = 2.0, 8  # seconds of a window, and most windows without overlap
# Moments at which persons are found in a video, and how often a second they can be followed.
MOST_MOMENTS, LEAST_TRACK_RATE = 150, 2.0
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
        classes: Probabilities by class.
        timeline: Picture of the windows.
        film: Path of a film that is shown.
        note: What the reader should know.
        headline: The answer in a line.
        table: Segments of one class: ``headers`` and ``data``.
        files: Paths of files to download: the table, and the video with its answers.
    """

    classes: dict[str, float] | None = None
    timeline: Figure | None = None
    film: str | None = None
    note: str | None = None
    headline: str | None = None
    table: dict[str, list] | None = None
    files: list[str] | None = None


def check_video(path: str, limits: Limits) -> float:
    """Return the seconds of a video; decodes nothing.

    Frames times pixels are limited, since they take the time: to 60 frames of 1920 x 1080 for each
    second of the longest video. Smaller frames count as much.

    Raises:
        UserError: If the file is too large, no video, too long, or has too many frames or pixels.
    """
    size = os.path.getsize(path) / 1e6
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
    task, name = recognizer.task, Path(video).name
    rate = min(TRACK_RATE, MOST_MOMENTS / seconds)
    track = rate >= LEAST_TRACK_RATE and has_package()
    asked = dict(window=max(WINDOW, seconds / MOST), rate=rate, track=track)
    asked = {option: value for option, value in asked.items() if option in task.options}
    predictions = []
    for prediction in recognizer.timeline(video, **asked):
        predictions.append(prediction)
        progress(min(prediction.span[1] / seconds, 1), task.part)
    picture = None
    if predictions and task.drawing:
        picture = draw_timeline(predictions, name, duration=seconds)
    summary = task.summary(predictions, k=5) if predictions else "nothing found"
    segments, film = Path(folder, "segments.csv"), Path(folder, "answers.mp4")
    table = write_segments(predictions, name, segments)
    yield Answer(
        summary if isinstance(summary, dict) else None,
        picture,
        headline=task.headline(summary),
        table=table,
        files=[str(segments)],
    )
    progress(0, "film")
    annotate_video(Path(video), predictions, film)
    yield Answer(film=None if task.drawing else str(film), files=[str(segments), str(film)])
    if "window" not in asked or not predictions[0].probabilities:  # rollout is of a window's class
        return
    progress(0, "attention rollout")
    scores = [prediction.score for prediction in predictions]
    opened = recognizer.pipeline.open(video)
    surest = recognizer.windows(opened, **asked)[scores.index(max(scores))]
    film = Path(folder, "rollout.mp4")
    sample = recognizer.pipeline.read(opened, surest.span)
    try:
        clip = next(rollout_clips(recognizer, sample))
    except UserError as error:  # not defined for the model
        yield Answer(note=describe(error))
        return
    _, images = draw_clip(Path(video).name, *clip)
    with VideoOutput(film, fps=4) as output:
        for image in images:
            output.add(image)
    yield Answer(film=str(film))


def write_segments(predictions: Sequence[Prediction], name: str, file: Path) -> dict[str, list]:
    """Write the segments of a video as ``demo --csv`` does, and return them as a table.

    Args:
        predictions: The answers for its parts.
        name: What the video is called, without the folder of this machine.
        file: The csv file.
    """
    with SegmentsCsv(file, SinkOptions(force=True)) as sink:
        for prediction in predictions:
            sink.append(replace(prediction, source=name))
    with file.open(encoding="utf-8", newline="") as rows:
        headers, *data = csv.reader(rows)
    return {"headers": headers, "data": data}
