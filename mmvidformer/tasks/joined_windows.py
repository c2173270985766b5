"""Segments of one class, from successive windows."""

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
    windows, or where these meet. Segments that a model found are as they are.
    """
    joined = JoinedWindows()
    segments = [joined.add(prediction) for prediction in predictions] + [joined.end()]
    return [segment for segment in segments if segment is not None]


class JoinedWindows:
    """Joins successive windows of one class and shot to segments, with constant memory."""

    def __init__(self) -> None:
        self._first: Prediction | None = None
        self._last: Prediction | None = None
        self._start = 0.0
        self._forget()

    def add(self, window: Prediction) -> Prediction | None:
        """Take the next window, and return the segment that it ends, if it ends one.

        What has no classes, or is a segment already, is returned as it is.
        """
        if window.task.finds_parts or not window.probabilities:
            return window
        start, _ = window.seconds
        segment, last = None, self._last
        if last is None:
            self._start = start
        elif last.source != window.source:
            segment, self._start = self.end(), start
        elif last.shot != window.shot:
            segment, self._start = self._segment(start), start
        elif last.label != window.label:
            meet = not window.so_far and math.isclose(last.end, start, abs_tol=1e-6)
            border = start if meet else (last.moment + window.moment) / 2
            segment, self._start = self._segment(border), border
        self._take(window)
        return segment

    def end(self) -> Prediction | None:
        """Return the last segment of a video, if it has windows."""
        if self._last is None:
            return None
        segment, self._last = self._segment(self._last.end), None
        return segment

    def _take(self, window: Prediction) -> None:
        if not self._count:
            self._first = window
        self._last, self._count = window, self._count + 1
        for output, shares in window.probabilities.items():
            self._shares[output] = self._shares.get(output, 0.0) + shares
        for name, value in window.measured.items():
            self._values[name] += value
        self._labels.update(window.labels)

    def _segment(self, end: float) -> Prediction:
        """Return the segment of the windows so far, and forget them."""
        shares = {output: total / self._count for output, total in self._shares.items()}
        segment = replace(
            self._first,
            scores=shares,
            probabilities=shares,
            seconds=(self._start, end),
            static=None,
            measured={name: total / self._count for name, total in self._values.items()},
            labels=tuple(x for x, count in self._labels.items() if 2 * count >= self._count),
        )
        self._forget()
        return segment

    def _forget(self) -> None:
        self._count = 0
        self._shares: dict[str, Any] = {}  # sums over the windows
        self._values: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()  # number of windows that have each
