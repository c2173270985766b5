"""Segments of one class, from successive windows, or from the moments of a person."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mmvidformer.tasks.prediction import Prediction


def list_segments(predictions: Iterable[Prediction]) -> list[Prediction]:
    """List the segments of the windows of a video, in their order, by the class of the first task.

    A segment is a ``Prediction`` with the mean probabilities and measured values of its windows. It
    ends at a cut. Two segments of a shot meet in the middle between the centers of their nearest
    windows, or where these meet. Segments that a model found are as they are, and boxes that have
    no track. Those of a track are joined, and a segment has the first box.
    """
    joined, segments = JoinedWindows(), list[Prediction]()
    for prediction in predictions:
        segments += joined.add(prediction)
    return segments + joined.end()


class JoinedWindows:
    """Joins successive windows of one class, shot and track to segments.

    Memory grows with the number of tracks in a video alone.
    """

    def __init__(self) -> None:
        self._runs: dict[int | None, Run] = {}  # by track; those of one video

    def add(self, window: Prediction) -> list[Prediction]:
        """Take the next window, and return the segments that it ends.

        What has no classes, is a segment already, or a box without a track, is returned as it is.
        """
        is_alone = bool(window.box) and window.track is None
        if window.task.finds_parts or not window.probabilities or is_alone:
            return [window]
        segments: list[Prediction] = []
        if any(run.last.source != window.source for run in self._runs.values()):
            segments = self.end()
        run = self._runs.get(window.track)
        start, _ = window.seconds
        border = None if run is None else run.border(window)
        if border is not None:
            segments.append(run.segment(border))
            start = border
        if run is None or border is not None:
            run = self._runs[window.track] = Run(window, start)
        run.take(window)
        return segments

    def end(self) -> list[Prediction]:
        """Return the last segments of a video, by their starts."""
        segments = [run.segment(run.last.end) for run in self._runs.values()]
        self._runs = {}
        return sorted(segments, key=lambda segment: segment.start)


class Run:
    """Successive windows of one class.

    Args:
        first: The first one.
        start: Where the segment begins, in seconds.
    """

    def __init__(self, first: Prediction, start: float) -> None:
        self.first = self.last = first
        self._start, self._count = start, 0
        self._shares: dict[str, Any] = {}  # sums over the windows
        self._values: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()  # number of windows that have each

    def border(self, window: Prediction) -> float | None:
        """Return where the segment ends if another begins with a window; None if it goes on."""
        start, _ = window.seconds
        if self.last.shot != window.shot:
            return start
        if self.last.label == window.label:
            return None
        meet = not window.so_far and math.isclose(self.last.end, start, abs_tol=1e-6)
        return start if meet else (self.last.moment + window.moment) / 2

    def take(self, window: Prediction) -> None:
        """Add a window."""
        self.last, self._count = window, self._count + 1
        for output, shares in window.probabilities.items():
            self._shares[output] = self._shares.get(output, 0.0) + shares
        for name, value in window.measured.items():
            self._values[name] += value
        self._labels.update(window.labels)

    def segment(self, end: float) -> Prediction:
        """Return the segment of the windows."""
        shares = {output: total / self._count for output, total in self._shares.items()}
        return replace(
            self.first,
            scores=shares,
            probabilities=shares,
            seconds=(self._start, end),
            measured={name: total / self._count for name, total in self._values.items()},
            labels=tuple(x for x, count in self._labels.items() if 2 * count >= self._count),
        )
