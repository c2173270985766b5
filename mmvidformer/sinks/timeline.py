"""The classes of a video over time, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun, Sink, SinkOptions
from mmvidformer.sinks.figures import save_figure, without_formulas
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.joined_windows import list_segments
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.video import Video

if TYPE_CHECKING:  # what draws nothing does without
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType

LEAST_PEAK = 0.05  # of a class that is drawn
Span = tuple[float, float, str]  # start and end in seconds, and class


class Timeline(Sink):
    """A picture of each video (``draw_timeline``)."""

    needs_parts = is_picture = True

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._place, self._options = target, options

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return the pictures; raise a ``UserError`` if the name is none, or of a stream."""
        from matplotlib.backend_bases import FigureCanvasBase

        suffix = target.suffix.lower().removeprefix(".")
        if suffix and not target.is_dir() and suffix not in FigureCanvasBase.filetypes:
            raise UserError(f"--timeline is a picture such as .png, or a folder, got {target}")
        if any(source.is_stream for source in sources):
            raise UserError("--timeline needs a file or a folder, got a stream")
        return [(source.name, source.target(target, "_timeline.png")) for source in sources]

    @classmethod
    def check_task(cls, task: Answers) -> None:
        """Boxes have no line."""
        if not task.drawing:
            raise UserError(f"--timeline is not for models of {task.part}")

    def begin(self, begun: Begun) -> Sink:
        """Take the name of the video."""
        self._source, self._kept = begun.source, list[Prediction]()
        return self

    def append(self, prediction: Prediction) -> None:
        """Keep a prediction."""
        self._kept.append(prediction)

    def end(self) -> None:
        """Draw the picture, if there is a prediction."""
        if not self._kept:
            return
        name, kept = self._source.name, self._kept
        duration = Video.open(name).duration if kept[0].task.drawing == "bars" else 0.0
        truth = [span[:3] for span in self._options.truth.get(name, ())]
        figure = draw_timeline(kept, Path(name).name, truth=truth, duration=duration)
        target = self._source.target(self._place, "_timeline.png")
        save_figure(figure, target)
        self._options.say(f"written: {target}")


def draw_timeline(
    predictions: Sequence[Prediction],
    title: str = "",
    most: int = 10,
    truth: Sequence[Span] = (),
    duration: float = 0.0,
) -> Figure:
    """Draw the class probabilities of a video's windows or steps over time, or the values.

    A point is at the middle of its window, or at the end of what a recurrent model saw. Drawn are
    the ``most`` classes of the first task with the highest peaks, without those that never reach
    5%. The background has the color of the most likely class, if a window has one class. Segments
    that a model found are bars, as high as their scores. Dashed lines are cuts. What is measured
    beside the classes is drawn below.

    Args:
        predictions: Predictions of a video, in order.
        title: Title.
        most: Largest number of lines.
        truth: Start and end in seconds, and class, of the annotated parts, drawn as bars above.
        duration: Seconds of the video, to the end of which segments that a model found are drawn.
    """
    from matplotlib import color_sequences
    from matplotlib.figure import Figure

    first, drawing = predictions[0], predictions[0].task.drawing
    lines = lines_of(predictions, most)
    names = [name for name, _ in lines]
    colors = dict(zip(names, color_sequences["tab10"] * (1 + most // 10), strict=False))
    measured = len(first.measured)
    figure = Figure(figsize=(10, 3.8 + 0.9 * measured), dpi=120, layout="constrained")
    heights = [4, *[1] * measured]
    grid = figure.subplots(1 + measured, sharex=True, squeeze=False, height_ratios=heights)
    axes, *below = grid[:, 0]
    axes.set(title=title)
    axes.grid(alpha=0.3)
    figure.axes[-1].set(xlabel="seconds")
    if first.probabilities:
        axes.set(ylabel="probability", ylim=(-0.02, 1.02))
    if drawing == "bars":
        draw_segments(axes, list_segments(predictions), colors)
    else:
        drawn = draw_lines(axes, predictions, lines, colors)
        colors = {name: colors[name] for name in drawn}
    if drawing == "shaded curves":
        for segment in list_segments(predictions):
            color = colors.get(segment.label, "none")
            axes.axvspan(*segment.span, color=color, alpha=0.12, lw=0)
    for last, window in pairwise(predictions):
        if last.shot != window.shot:
            axes.axvline(window.start, color="black", lw=0.8, ls="--")
    if truth:
        draw_truth(axes, truth, colors)
    times = [time for prediction in predictions for time in prediction.span]
    times += [time for start, end, _ in truth for time in (start, end)]
    times += [0.0, duration] if drawing == "bars" else []
    axes.set(xlim=(min(times), max(times)))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9)
    for row, name in zip(below, first.measured, strict=True):
        draw_value(row, name, predictions)
    return without_formulas(figure)


def lines_of(predictions: Sequence[Prediction], most: int) -> list[tuple[str, np.ndarray]]:
    """Return names and probabilities, or values, of the first task: those with high peaks."""
    output = next(iter(predictions[0].scores))
    names = predictions[0].names[output]
    scores = [(prediction.probabilities or prediction.scores)[output] for prediction in predictions]
    lines = np.stack(scores, axis=1)
    drawn = np.sort(np.argsort(-lines.max(axis=1), kind="stable")[:most])
    return [(names[number], lines[number]) for number in drawn]


def draw_lines(
    axes: Axes,
    predictions: Sequence[Prediction],
    lines: Sequence[tuple[str, np.ndarray]],
    colors: Mapping[str, ColorType],
) -> list[str]:
    """Draw values, or the probabilities of the highest class and of all that reach 5%.

    Returns their names. What is no number anywhere is drawn, too.
    """
    peaks = [line.max() for _, line in lines]
    least = min(LEAST_PEAK, max(peaks)) if predictions[0].probabilities else -np.inf
    moments = [prediction.moment for prediction in predictions]
    drawn = [
        (name, line) for (name, line), peak in zip(lines, peaks, strict=True) if not peak < least
    ]
    for name, line in drawn:
        points = apart_at_cuts(predictions, moments, line)
        axes.plot(*points, ".-", markersize=8, label=name, color=colors[name])
    if len(drawn) < len(lines):
        axes.plot([], [], " ", label=f"others below {LEAST_PEAK:.0%}")
    return [name for name, _ in drawn]


def draw_segments(
    axes: Axes, segments: Sequence[Prediction], colors: Mapping[str, ColorType]
) -> None:
    """Draw found segments as bars, as high as their scores."""
    axes.set(ylabel=f"score of found {segments[0].task.part}")
    for name, color in colors.items():
        of_class = [segment for segment in segments if segment.label == name]
        if of_class:
            starts, ends = zip(*(segment.span for segment in of_class), strict=True)
            heights, widths = [segment.score for segment in of_class], np.subtract(ends, starts)
            line = 2.0 * (not widths.any())  # of moments, which have no width
            style = dict[str, Any](label=name, color=color, edgecolor=color, linewidth=line)
            axes.bar(starts, heights, widths, align="edge", **style)


def draw_truth(axes: Axes, truth: Sequence[Span], colors: Mapping[str, ColorType]) -> None:
    """Draw the annotated parts as a row of bars above the probabilities."""
    ticks = np.linspace(0, 1, 6)
    axes.set_yticks([*ticks, 1.12], [*(f"{tick:.1f}" for tick in ticks), "true"])
    axes.set(ylim=(-0.02, 1.2))
    for start, end, name in truth:
        color, line = colors.get(name, "gray"), 2.0 * (start == end)
        axes.barh(1.12, end - start, 0.1, start, color=color, edgecolor=color, linewidth=line)


def apart_at_cuts(
    predictions: Sequence[Prediction], *values: Sequence[float] | np.ndarray
) -> list[np.ndarray]:
    """Put NaN into values of predictions at each cut between them, which no line then crosses."""
    shots = [prediction.shot for prediction in predictions]
    cuts = [number for number in range(1, len(shots)) if shots[number] != shots[number - 1]]
    return [np.insert(np.asarray(row, dtype=float), cuts, np.nan) for row in values]


def draw_value(axes: Axes, name: str, predictions: Sequence[Prediction]) -> None:
    """Draw what is measured beside the classes over time; doubtful answers are left out.

    Dotted lines are the values from which on it counts, so the axis never shows less.
    """
    task = predictions[0].task
    certain = [prediction for prediction in predictions if not prediction.doubt]
    moments = [prediction.moment for prediction in certain]
    values = [prediction.measured[name] for prediction in certain]
    axes.plot(*apart_at_cuts(certain, moments, values), ".-", color="black", markersize=8)
    axes.axhline(0, color="gray", lw=0.8)
    for limit in task.limits.get(name, ()):  # the axis then reaches them
        axes.axhline(limit, color="gray", lw=0.8, ls=":")
    axes.yaxis.set_label_position("right")
    axes.set_ylabel(f"{name}\n{task.units.get(name, '')}", rotation=0, ha="left", va="center")
    axes.grid(alpha=0.3)
