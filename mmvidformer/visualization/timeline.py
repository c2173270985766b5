"""The classes of a video over time: segments of one class, as a table and as a picture."""

import csv
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

if TYPE_CHECKING:  # takes seconds to import
    from mmvidformer.apis import Prediction


class Segment(NamedTuple):
    """A part of a video in which the most likely class is the same.

    Attributes:
        video: Path of the file; None for an array or a camera.
        start: Begin in seconds.
        end: End in seconds.
        label: Name of the class.
        probability: Mean probability of the class over the windows.
    """

    video: str | None
    start: float
    end: float
    label: str
    probability: float


def list_segments(predictions: Sequence["Prediction"]) -> list[Segment]:
    """List the segments of the windows of a video, in their order, for the first task.

    Two segments meet in the middle between the centers of their nearest windows.
    """
    seconds = np.array([one.seconds for one in predictions])
    centers = seconds.mean(axis=1)
    borders = [seconds[0, 0], *(centers[1:] + centers[:-1]) / 2, seconds[-1, 1]]
    found = []
    tops = [one.top(1)[0] for one in predictions]
    for label, group in groupby(range(len(tops)), key=lambda i: tops[i][1]):
        members = list(group)
        start, end = float(borders[members[0]]), float(borders[members[-1] + 1])
        mean = float(np.mean([tops[i][2] for i in members]))
        found.append(Segment(predictions[0].source, start, end, label, mean))
    return found


def write_segments(path: Path, segments: Iterable[Segment]) -> None:
    """Write segments as a csv file, with the attributes of ``Segment`` as columns."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Segment._fields)
        for video, start, end, label, probability in segments:
            writer.writerow([video, f"{start:.2f}", f"{end:.2f}", label, f"{probability:.4f}"])


def draw_timeline(predictions: Sequence["Prediction"], title: str = "", most: int = 10) -> Figure:
    """Draw the class probabilities of a video's windows over time, for the first task.

    A point is at the middle of its window. Drawn are the ``most`` classes with the highest peaks.
    The background has the color of the most likely class.
    """
    task = next(iter(predictions[0].scores))
    probabilities = np.stack([prediction.probabilities[task] for prediction in predictions])
    times = np.array([prediction.seconds for prediction in predictions])
    drawn = np.sort(np.argsort(-probabilities.max(axis=0), kind="stable")[:most])
    figure = Figure(figsize=(10, 3.8), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="seconds", ylabel="probability")
    names = [predictions[0].names[task][label] for label in drawn]
    colors = dict(zip(names, colormaps["tab10"].colors * (1 + most // 10), strict=False))
    for name, label in zip(names, drawn, strict=True):
        points = times.mean(axis=1), probabilities[:, label]
        axes.plot(*points, ".-", markersize=8, label=name, color=colors[name])
    for segment in list_segments(predictions):
        color = colors.get(segment.label, "none")
        axes.axvspan(segment.start, segment.end, color=color, alpha=0.12, linewidth=0)
    axes.set(xlim=(times.min(), times.max()), ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9)
    return figure
