"""Frames of a video file or a camera, one after the other."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np


@dataclass
class Pace:
    """Which frames are taken: every so many frames, or one every so many seconds.

    Holds when the next one is due: each run over a source needs one of its own.

    Args:
        frames: Take each frame whose number is a multiple of this; not used with ``seconds``.
        seconds: Take the first frame at or after each multiple of this.
    """

    frames: int = 1
    seconds: float | None = None
    _due: float = field(default=0.0, init=False)

    def __call__(self, number: int, seconds: float) -> bool:
        """Whether to take frame ``number`` (from 0), at ``seconds`` from the first one."""
        if self.seconds is None:
            return number % self.frames == 0
        seconds += 1e-6  # 15 / 30 s may be less than 2 x 0.25 s in floating point
        if seconds < self._due:
            return False
        # What a camera that stalled did not give in time is not caught up with.
        self._due = (seconds // self.seconds + 1) * self.seconds
        return True

    def rate(self, fps: float) -> float:
        """Frames that are taken of a second, of ``fps``."""
        return fps / self.frames if self.seconds is None else 1 / self.seconds


class Capture:
    """A video file or a camera, read frame by frame through OpenCV; a context manager.

    Args:
        source: Path of a file, or the number of a camera, from 0.

    Attributes:
        fps: Frames a second that the file states; of a camera what its driver says, or 30.
        total: Frames that the file states; None for cameras, and files that do not say.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is no video that OpenCV can read, or states no frame rate.
        ConnectionError: If there is no such camera, or it cannot be opened.
    """

    def __init__(self, source: str | int | Path) -> None:
        self.source = source
        self.is_camera = str(source).isdigit() and not Path(str(source)).exists()
        if not self.is_camera and not Path(source).is_file():
            raise FileNotFoundError(f"there is no video file {source}, and it is no camera number")
        self._reader = cv2.VideoCapture(int(source) if self.is_camera else str(source))
        if not self._reader.isOpened():
            if self.is_camera:
                raise ConnectionError(f"there is no camera {source}, or another program has it")
            raise ValueError(f"{source} cannot be read as a video by OpenCV")
        fps = self._reader.get(cv2.CAP_PROP_FPS)
        total = self._reader.get(cv2.CAP_PROP_FRAME_COUNT)
        known = math.isfinite(fps) and fps > 0
        if not known and not self.is_camera:
            raise ValueError(f"{source} states no frame rate (OpenCV reads {fps})")
        self.fps = fps if known else 30.0
        self.total = int(total) if total > 0 and not self.is_camera else None

    def frames(
        self, wanted: Callable[[int, float], bool]
    ) -> Iterator[tuple[int, float, np.ndarray]]:
        """Read on to the end; a camera has none.

        Args:
            wanted: Tells by number and seconds which frames to give (``Pace``). The others are
                not converted.

        Yields:
            Number of the frame, from 0; its seconds from the first frame, of a file by its frame
            rate, of a camera by the clock; and its RGB pixels (H, W, 3), 8 bit.

        Raises:
            ValueError: If not a single frame can be read.
            ConnectionError: If a camera stops.
        """
        number, start = 0, time.perf_counter()
        while self._reader.grab():
            clock = time.perf_counter()
            if number == 0:
                start = clock
            seconds = clock - start if self.is_camera else number / self.fps
            if wanted(number, seconds):
                read, pixels = self._reader.retrieve()
                if not read:
                    break
                yield number, seconds, cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
            number += 1
        if self.is_camera:
            raise ConnectionError(f"camera {self.source} gave no more frames after {number}")
        if number == 0:
            raise ValueError(f"{self.source} has no frame that OpenCV can read")
        if self.total is not None and number < self.total:
            warnings.warn(
                f"{self.source} ended after {number} of the {self.total} frames that it states",
                stacklevel=2,
            )

    def close(self) -> None:
        """Let go of the file or the camera."""
        self._reader.release()

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
