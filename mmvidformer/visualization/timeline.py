"""The classes of a video over time, as a picture."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmvidformer.apis import Prediction
from mmvidformer.visualization.figures import without_formulas
from mmvidformer.visualization.part_tables import list_segments


def draw_timeline(
    predictions: Sequence[Prediction],
    title: str = "",
    most: int = 10,
    truth: Sequence[tuple[float, float, str]] = (),
    duration: float = 0.0,
) -> Figure:
    """Draw the class probabilities of a video's windows or steps over time, or the values.

    A point is at the middle of its window, or at the end of what a recurrent model saw. Drawn are
    the ``most`` classes of the first task with the highest peaks. The background has the color of
    the most likely class, if a window has one class. Segments that a model found are bars, as high
    as their scores. Dashed lines are cuts. What is measured beside the classes is drawn below.

    Args:
        predictions: Predictions of a video, in order.
        title: Title.
        most: Largest number of lines.
        truth: Start and end in seconds, and class, of the annotated parts, drawn as bars above.
        duration: Seconds of the video, to the end of which segments that a model found are drawn.
    """
    first, task = predictions[0], predictions[0].task
    output = next(iter(first.scores))
    scores = [(prediction.probabilities or prediction.scores)[output] for prediction in predictions]
    lines = np.stack(scores)
    times = np.array([prediction.seconds for prediction in predictions])
    moments = [prediction.moment for prediction in predictions]
    drawn = np.sort(np.argsort(-lines.max(axis=0), kind="stable")[:most])
    measured = len(first.measured)
    figure = Figure(figsize=(10, 3.8 + 0.9 * measured), dpi=120, layout="constrained")
    options = dict(sharex=True, squeeze=False, height_ratios=[4, *[1] * measured])
    axes, *below = figure.subplots(1 + measured, **options)[:, 0]
    axes.set(title=title)
    figure.axes[-1].set(xlabel="seconds")
    names = [first.names[output][label] for label in drawn]
    colors = dict(zip(names, colormaps["tab10"].colors * (1 + most // 10), strict=False))
    has_segments = task.has_one_class or task.finds_parts
    segments = list_segments(predictions) if has_segments else []
    for name, label in zip(names, drawn, strict=True):
        style = dict(label=name, color=colors[name])
        of_class = [segment for segment in segments if segment.label == name]
        if not task.finds_parts:
            points = apart_at_cuts(predictions, moments, lines[:, label])
            axes.plot(*points, ".-", markersize=8, **style)
        elif of_class:
            _, starts, ends, _, heights, _ = zip(*of_class, strict=True)
            axes.bar(starts, heights, np.subtract(ends, starts), align="edge", **style)
    for segment in segments if task.has_one_class else ():
        color = colors.get(segment.label, "none")
        axes.axvspan(segment.start, segment.end, color=color, alpha=0.12, lw=0)
    for last, window in pairwise(predictions):
        if last.shot != window.shot:
            axes.axvline(window.start, color="black", lw=0.8, ls="--")
    ends = [time for start, end, _ in truth for time in (start, end)]
    ends += [0.0, duration] if task.finds_parts else []
    axes.set(xlim=(min([times.min(), *ends]), max([times.max(), *ends])))
    if first.probabilities:
        axes.set(ylabel="probability", ylim=(-0.02, 1.12 if truth else 1.02))
    for start, end, name in truth:
        axes.barh(1.07, end - start, 0.07, start, color=colors.get(name, "gray"))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9)
    for row, name in zip(below, first.measured, strict=True):
        draw_value(row, name, predictions)
    return without_formulas(figure)


def apart_at_cuts(
    predictions: Sequence[Prediction], *values: Sequence[float] | np.ndarray
) -> list[np.ndarray]:
    """Put NaN into values of predictions at each cut between them, which no line then crosses."""
    shots = [prediction.shot for prediction in predictions]
    cuts = [number for number in range(1, len(shots)) if shots[number] != shots[number - 1]]
    return [np.insert(np.asarray(row, dtype=float), cuts, np.nan) for row in values]


def draw_value(axes: Axes, name: str, predictions: Sequence[Prediction]) -> None:
    """Draw what is measured beside the classes over time; doubtful answers are left out."""
    certain = [prediction for prediction in predictions if not prediction.doubt]
    moments = [prediction.moment for prediction in certain]
    values = [prediction.measured[name] for prediction in certain]
    axes.plot(*apart_at_cuts(certain, moments, values), ".-", color="black", markersize=8)
    axes.axhline(0, color="gray", lw=0.8)
    axes.set(ylabel=name)
    axes.grid(alpha=0.3)
