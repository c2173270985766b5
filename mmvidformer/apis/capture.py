"""Frames of a video file or a camera, one after the other."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np


class Capture:
    """A video file or a camera, read frame by frame with OpenCV; a context manager.

    Args:
        source: Path of a file, or index of a camera (0 is the first).

    Attributes:
        is_camera: Whether the source is a camera.
        fps: Frames per second that the file states. For a camera the value of its driver, or 30.
        total: Number of frames that the file states; None if it states none, and for a camera.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If OpenCV cannot read the file as a video, or it states no frame rate.
        ConnectionError: If the camera does not exist or cannot be opened.
    """

    def __init__(self, source: str | int | Path) -> None:
        self.source = source
        self.is_camera = str(source).isdigit() and not Path(str(source)).exists()
        if not self.is_camera and not Path(source).is_file():
            raise FileNotFoundError(f"video {source} does not exist, and is no camera index")
        self._reader = cv2.VideoCapture(int(source) if self.is_camera else str(source))
        opened = self._reader.isOpened()
        if self.is_camera and not opened:
            raise ConnectionError(f"camera {source} does not exist or is in use")
        fps = self._reader.get(cv2.CAP_PROP_FPS)
        total = self._reader.get(cv2.CAP_PROP_FRAME_COUNT)
        known = math.isfinite(fps) and fps > 0
        if not self.is_camera and not (opened and known):
            raise ValueError(f"OpenCV cannot read {source} as a video with a frame rate")
        self.fps = fps if known else 30.0
        self.total = int(total) if total > 0 and not self.is_camera else None

    def frames(
        self, interval: int = 1, time_step: float | None = None
    ) -> Iterator[tuple[int, float, np.ndarray]]:
        """Read every ``interval``-th frame, or one frame per ``time_step``, to the end.

        Args:
            interval: Distance between the frames to read, in frames; ignored with ``time_step``.
            time_step: Distance between the frames to read, in seconds: the first frame at or
                after each multiple of it.

        Yields:
            The number of the frame, from 0; its time in seconds since the first frame (by the
            frame rate of a file, by the clock for a camera); its RGB pixels (H, W, 3), uint8.

        Raises:
            ValueError: If the file has no frame that OpenCV can read.
            ConnectionError: If the camera stops.
        """
        number, start, due = 0, time.perf_counter(), 0.0
        while self._reader.grab():
            clock = time.perf_counter()
            if number == 0:
                start = clock
            seconds = clock - start if self.is_camera else number / self.fps
            now = seconds + 1e-6  # 15 / 30 s may be less than 2 x 0.25 s in floating point
            if now >= due if time_step else number % interval == 0:
                read, pixels = self._reader.retrieve()
                if not read:
                    break
                if time_step:
                    due = (now // time_step + 1) * time_step
                yield number, seconds, cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
            number += 1
        if self.is_camera:
            raise ConnectionError(f"camera {self.source} stopped after {number} frames")
        if number == 0:
            raise ValueError(f"{self.source} has no frame that OpenCV can read")

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.release()
