"""What the page answers to a video."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.apis.heat import rollout_clips
from mmvidformer.apis.persons import TRACK_RATE
from mmvidformer.apis.tracks import has_package
from mmvidformer.engine.errors import describe
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.film import annotate_video
from mmvidformer.sinks.heatmaps import draw_clip
from mmvidformer.sinks.segments import SegmentsCsv
from mmvidformer.sinks.timeline import draw_timeline
from mmvidformer.video.writer import VideoOutput
from mmvidformer.web.limits import check_video

WINDOW, MOST = 2.0, 8  # seconds of a window, and most windows without overlap
# Moments at which persons are found in a video, and how often a second they can be followed.
MOST_MOMENTS, LEAST_TRACK_RATE = 150, 2.0

Progress = tuple[float, str]  # share that is done, and what is being done


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


def answer_page(
    recognizer: Recognizer, limits: Limits, video: Path, folder: str
) -> Iterator[Answer | Progress]:
    """Check and classify a video.

    Args:
        recognizer: The model.
        limits: What is refused.
        video: Path of the file.
        folder: Where films are written.

    Yields:
        Parts of the answer, and between them progress.

    Raises:
        UserError: If the video is refused, or cannot be read.
    """
    seconds = check_video(video, limits)
    task, name = recognizer.task, video.name
    rate = min(TRACK_RATE, MOST_MOMENTS / seconds)
    track = rate >= LEAST_TRACK_RATE and has_package()
    asked = dict(window=max(WINDOW, seconds / MOST), rate=rate, track=track)
    asked = {option: value for option, value in asked.items() if option in task.options}
    predictions = []
    for prediction in recognizer.timeline(video, **asked):
        predictions.append(prediction)
        yield min(prediction.span[1] / seconds, 1), task.part
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
    yield 0, "film"
    annotate_video(video, predictions, film)
    yield Answer(film=None if task.drawing else str(film), files=[str(segments), str(film)])
    if "window" not in asked or not predictions[0].probabilities:  # rollout is of a window's class
        return
    yield 0, "attention rollout"
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
    _, images = draw_clip(name, *clip)
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
