"""The parts of a source of frames between two gaps, their seconds, and their ends."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeVar

import numpy as np

from mmvidformer.video.capture import Frame, FrameSource
from mmvidformer.video.times import FrameTimes

logger = logging.getLogger("mmvidformer")

KEPT = 8192  # frames whose seconds are remembered, more than those of any window or clip
SETTLED = 1.0  # seconds after which frames come one by one; before, those that had waited
SPAN, LEAST_SPAN = 10.0, 2.0  # seconds in which the rate of a camera is measured

T = TypeVar("T")


def without_gaps(source: FrameSource, errors: list[BaseException]) -> Iterator["PartClock"]:
    """Split the frames of a source where numbers are missing; see ``until_error``."""
    frames = enumerate(until_error(source.frames(), errors))
    for _, part in groupby(frames, lambda pair: pair[1][0] - pair[0]):
        yield PartClock(source, (frame for _, frame in part))


def until_error(frames: Iterable[T], errors: list[BaseException]) -> Iterator[T]:
    """Yield frames until they end or break off.

    The error goes to ``errors``, so that what waits for later frames is answered before it is
    raised.
    """
    try:
        yield from frames
    except (Exception, KeyboardInterrupt) as error:
        errors.append(error)


class PartClock:
    """The seconds of a part of a source, whose frames it passes on.

    Windows count frames at the rate that a source states. A camera may deliver another one, such as
    half of it in the dark. So the rate at which frames arrived lately tells how long each of them
    lasts, not the arrival of each: those of a network come in bursts, above all at the start.

    Args:
        source: Where the frames are from.
        frames: The frames of the part, as of ``Capture.frames``.
    """

    def __init__(self, source: FrameSource, frames: Iterator[Frame]) -> None:
        self._source, self._frames = source, frames
        self._step = FrameTimes(source.fps).seconds(1)  # seconds that a frame lasts
        self._count = 0  # of the frames that were passed on
        self._start = 0.0  # seconds of the first one
        self._shown: deque[float] = deque(maxlen=KEPT)  # seconds of the last ones
        self._arrivals: deque[float] = deque()  # of the last ``SPAN`` seconds
        self._is_checked = False

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the pixels of the frames."""
        for _, seconds, pixels in self._frames:
            if not self._count:
                self._start = seconds
            if self._source.is_live:
                self._measure(seconds)
                self._shown.append(self._shown[-1] + self._step if self._shown else seconds)
            self._count += 1
            yield pixels

    def seconds(self, counted: float) -> float:
        """Return seconds of the source for those since the start of the part at its stated rate."""
        if not self._shown:
            return self._start + counted
        shown = np.array(list(self._shown))  # a copy, as a thread may read the frames
        number = FrameTimes(self._source.fps).count(counted) - (self._count - len(shown))
        times = FrameTimes(self._source.fps, shown - shown[0])
        return float(shown[0] + times.seconds(number))

    def _measure(self, seconds: float) -> None:
        """Note the arrival of a frame, and measure how long a frame lasts."""
        if seconds - self._start < SETTLED:
            return
        arrivals = self._arrivals
        arrivals.append(seconds)
        while len(arrivals) > 2 and seconds - arrivals[1] > SPAN:
            arrivals.popleft()
        length = seconds - arrivals[0]
        if length >= LEAST_SPAN:
            self._step = length / (len(arrivals) - 1)
        if length >= SPAN / 2 and not self._is_checked:
            self._is_checked = True
            ratio = FrameTimes(self._source.fps).count(self._step)
            if not 0.8 < ratio < 1.25:
                stated = self._source.fps
                logger.warning(
                    "%s states %.3g frames per second, but delivers %.3g: windows span %.3g times "
                    "as many seconds as they should",
                    *(self._source.name, stated, stated / ratio, ratio),
                )
