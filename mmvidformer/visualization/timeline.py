"""The classes of a video over time: segments of one class, as a table and as a picture."""

import csv
import io
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmvidformer.apis import Prediction
from mmvidformer.visualization.figures import without_formulas

PROBABILITY = "probability"
COLUMNS = ("video", "start", "end", "label", PROBABILITY)  # of segments; then their values


class Segment(NamedTuple):
    """A part of a shot in which the most likely class is the same.

    Attributes:
        video: Path of the file; None for an array or a camera.
        start: Begin in seconds.
        end: End in seconds.
        label: Name of the class.
        probability: Mean probability of the class over the windows.
        values: Means of what is measured beside the classes.
    """

    video: str | None
    start: float
    end: float
    label: str
    probability: float
    values: Mapping[str, float] = MappingProxyType({})


def list_segments(predictions: Iterable[Prediction]) -> list[Segment]:
    """List the segments of the windows of a video, in their order, for the first task.

    A segment ends at a cut. Two segments of a shot meet in the middle between the centers of their
    nearest windows, or where these meet. Segments that a model found are as they are.
    """
    joined = _JoinedWindows()
    segments = [joined.add(prediction) for prediction in predictions] + [joined.end()]
    return [segment for segment in segments if segment is not None]


class _JoinedWindows:
    """Joins successive windows of one class and shot to segments, with constant memory."""

    def __init__(self) -> None:
        self._last: Prediction | None = None
        self._start, self._count = 0.0, 0
        self._sums: Counter[str] = Counter()  # of the probability, and of each value

    def add(self, prediction: Prediction) -> Segment | None:
        """Take the next window, and return the segment that it ends, if it ends one."""
        start, end = prediction.seconds
        _, label, probability = prediction.top(1)[0]
        if prediction.task.finds_parts:
            return Segment(prediction.source, start, end, label, probability)
        ended, last = None, self._last
        if last is None:
            self._start = start
        elif last.source != prediction.source:
            ended, self._start = self.end(), start
        elif last.shot != prediction.shot:
            ended, self._start = self._segment(start), start
        elif last.top(1)[0][1] != label:
            meet = not prediction.so_far and math.isclose(last.end, start, abs_tol=1e-6)
            border = start if meet else (last.moment + prediction.moment) / 2
            ended, self._start = self._segment(border), border
        self._last, self._count = prediction, self._count + 1
        self._sums.update({PROBABILITY: probability, **prediction.values})
        return ended

    def end(self) -> Segment | None:
        """Return the last segment of a video, if it has windows."""
        if self._last is None:
            return None
        ended, self._last = self._segment(self._last.seconds[1]), None
        return ended

    def _segment(self, end: float) -> Segment:
        """Return the segment of the windows so far, and forget them."""
        label = self._last.top(1)[0][1]
        means = {name: total / self._count for name, total in self._sums.items()}
        self._sums, self._count = Counter(), 0
        probability = means.pop(PROBABILITY)
        return Segment(self._last.source, self._start, end, label, probability, means)


class WindowTable:
    """A csv file with a row for each window or segment, which is written at once.

    Columns are video, start and end in seconds, and the most likely class and its probability, by
    task if there are several; or the values. A row that was not written completely is removed.

    Args:
        path: The file. If it exists, rows are added to it.

    Raises:
        ValueError: If it is another table.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._windows: dict[str, list[list[str]]] = defaultdict(list)  # start and end, by video
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.is_file() else b""
        kept = text[: text.rfind(b"\n") + 1]
        rows = [row for row in csv.reader(io.StringIO(kept.decode(errors="replace"))) if row]
        if rows and rows[0][:3] != ["video", "start", "end"]:
            raise ValueError(f"{path} is no table of windows; use another file")
        for row in rows[1:]:
            self._windows[row[0]].append(row[1:3])
        self.is_new = not kept
        self._file = path.open("a", 1, encoding="utf-8", newline="")  # row by row
        self._file.truncate(len(kept))
        self._writer = csv.writer(self._file, lineterminator="\n")

    def count(self, video: str, seconds: list[tuple[float, float]]) -> int:
        """Return how many of the windows of a video the file has.

        Raises:
            ValueError: If it has others.
        """
        rows = self._windows[video]
        expected = [[f"{start:.2f}", f"{end:.2f}"] for start, end in seconds[: len(rows)]]
        if rows != expected:
            raise ValueError(f"{self.path} has other windows of {video}; use another file")
        return len(rows)

    def add(self, part: Prediction | Segment) -> None:
        """Write a row."""
        if isinstance(part, Segment):
            cells: dict[str, Any] = dict(label=part.label, probability=f"{part.probability:.4f}")
            cells |= {name: f"{mean:.4f}" for name, mean in part.values.items()}
            video, seconds = part.video, (part.start, part.end)
        else:
            cells = part.task.columns(part)
            video, seconds = part.source, part.seconds or (0.0, 0.0)
        if self.is_new:
            self._writer.writerow(["video", "start", "end", *cells])
            self.is_new = False
        values = (f"{x:.6g}" if isinstance(x, float) else x for x in cells.values())
        self._writer.writerow([video, *(f"{x:.2f}" for x in seconds), *values])


class PartTable(AbstractContextManager):
    """A csv file of the segments of videos, or of the values of their windows; a context manager.

    Each row is written when its segment has ended, the last one at the end, also of an interrupted
    run. An old file is replaced.
    """

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._table, self._joined = WindowTable(path), _JoinedWindows()

    def add(self, prediction: Prediction) -> None:
        """Take the next prediction of a video, or the first of the next video."""
        has_classes = bool(prediction.probabilities)
        self._write(self._joined.add(prediction) if has_classes else prediction)

    def __exit__(self, *error: object) -> None:
        self._write(self._joined.end())
        if self._table.is_new:  # nothing was found
            self._table.path.write_text(",".join(COLUMNS) + "\n")

    def _write(self, row: Prediction | Segment | None) -> None:
        if row is not None:
            self._table.add(row)


@contextmanager
def open_rows(
    json_lines: Path | None, parts: Path | None, windows: WindowTable | None, k: int = 5
) -> Iterator[Callable[..., None]]:
    """Open files of rows; yields a function that writes a prediction or a failure at once.

    Its argument ``in_tables`` says whether tables take the prediction, besides JSON lines.

    Args:
        json_lines: File of JSON lines; ``-``: the standard output.
        parts: File of a ``PartTable``.
        windows: Table of windows.
        k: Number of classes of a JSON line.
    """
    with ExitStack() as stack:
        lines, tables = None, [windows] if windows else []
        if str(json_lines) == "-":
            lines = sys.stdout
        elif json_lines:
            json_lines.parent.mkdir(parents=True, exist_ok=True)
            lines = stack.enter_context(json_lines.open("w", 1, encoding="utf-8"))  # line by line
        if parts:
            tables.append(stack.enter_context(PartTable(parts)))

        def write(answer: Prediction | dict, in_tables: bool = True) -> None:
            is_failure = isinstance(answer, dict)
            if lines:
                record = answer if is_failure else answer.record(k)
                print(json.dumps(record, ensure_ascii=False), file=lines, flush=True)
            for table in tables if in_tables and not is_failure else ():
                table.add(answer)

        yield write


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
