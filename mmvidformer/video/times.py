"""Numbers of frames and their seconds."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

# Rates are binary fractions: 15 / 30 s may be less than 2 x 0.25 s.
EPSILON = 1e-6
Values = Any  # a number, an array or a tensor


@dataclass(frozen=True, eq=False)
class FrameTimes:
    """When the frames of a video are shown, in seconds since its first one.

    All that speaks of seconds asks it. Numbers and seconds may be floats, arrays or (at a constant
    rate) tensors; a number may lie between two frames, or beyond the last one.

    Args:
        rate: Frames per second; their mean, if it varies. 0: unknown.
        starts: Seconds (n,) at which each frame is first shown, ascending from 0. None: frame k is
            shown at ``k / rate``.
    """

    rate: float
    starts: np.ndarray | None = None

    def seconds(self, numbers: Values) -> Values:
        """Return when frames are first shown."""
        if self.starts is None:
            return numbers / self.rate
        last = len(self.starts) - 1
        within = np.interp(numbers, np.arange(last + 1), self.starts)
        return within + np.maximum(np.asarray(numbers) - last, 0) / self.rate

    def numbers(self, seconds: Values) -> Values:
        """Return the frames that are first shown at some seconds, as fractions."""
        if self.starts is None:
            return seconds * self.rate
        within = np.interp(seconds, self.starts, np.arange(len(self.starts)))
        return within + np.maximum(np.asarray(seconds) - self.starts[-1], 0) * self.rate

    def at(self, seconds: Values) -> Values:
        """Return the frames that are shown at some seconds, as integers."""
        if self.starts is None:
            return np.floor(self.numbers(seconds) + EPSILON).astype(int)
        return np.searchsorted(self.starts, np.asarray(seconds) + EPSILON, side="right") - 1

    def span(self, first: Values, last: Values) -> tuple[Values, Values]:
        """Return the seconds at which frame ``first`` begins and frame ``last`` ends."""
        return self.seconds(first), self.seconds(last + 1)

    def count(self, seconds: Values) -> Values:
        """Return how many frames are shown in so many seconds, in the mean, as a fraction."""
        return seconds * self.rate

    def rescale(self, count: float, rate: float | None) -> float:
        """Return how many frames last as long as ``count`` of another rate; None: of this one."""
        return count * self.rate / rate if rate else count

    def frames_late(self, rate: float) -> np.ndarray:
        """Return by how many frames each frame comes later than ``k / rate``."""
        return self.starts * rate - np.arange(len(self.starts))

    def has_rate(self, rate: float) -> bool:
        """Whether no frame is more than one frame away from ``k / rate``."""
        return self.starts is None or bool(np.abs(self.frames_late(rate)).max() <= 1 + EPSILON)

    @property
    def is_constant(self) -> bool:
        """Whether frame k is shown at ``k / rate``, or at most one frame away from there."""
        return self.has_rate(self.rate)

    @property
    def constant_rate(self) -> Fraction:
        """The rate, or that at which a file of variable rate loses hardly a frame.

        It is that of the median distance of frames, up to 60 per second, or at least the mean.
        """
        rate = self.rate
        if not self.is_constant:
            steps = np.diff(self.starts)
            rate = max(float(1 / steps.mean()), min(float(1 / np.median(steps)), 60.0))
        return Fraction(rate).limit_denominator(1001)

    def repeats(self) -> np.ndarray | None:
        """Return how often each frame is shown at ``constant_rate``; None: all once.

        A frame is shown from the multiple of ``1 / constant_rate`` that is nearest to its time, and
        the last frame once, as ``ffmpeg -vf fps=RATE`` converts a file.
        """
        if self.is_constant:
            return None
        places = np.round(self.starts * float(self.constant_rate)).astype(int)
        return np.diff(places, append=places[-1] + 1)
