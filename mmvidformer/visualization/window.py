"""A window that shows pages as they come."""

import os
import sys
import time

import cv2
import numpy as np


class Window:
    """A window on the screen; a context manager.

    Args:
        title: Its title.

    Raises:
        RuntimeError: If there is no screen, or OpenCV is built without windows.
    """

    def __init__(self, title: str) -> None:
        screens = ("DISPLAY", "WAYLAND_DISPLAY")
        if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
            raise RuntimeError("there is no screen to show a window on: DISPLAY is not set")
        self.title = title
        try:
            cv2.namedWindow(title)
        except cv2.error as error:
            raise RuntimeError(f"this OpenCV shows no windows: {error.err}") from error
        self._start: float | None = None

    def show(self, page: np.ndarray, seconds: float | None = None) -> bool:
        """Show an RGB page (H, W, 3).

        Args:
            page: The page.
            seconds: When it is due, counted from the first page: waits so long if it is early.

        Returns:
            False if q or Esc was pressed.
        """
        now = time.perf_counter()
        self._start = now if self._start is None else self._start
        early = 0.0 if seconds is None else seconds - (now - self._start)
        cv2.imshow(self.title, cv2.cvtColor(page, cv2.COLOR_RGB2BGR))
        return cv2.waitKey(max(1, round(1000 * early))) & 0xFF not in (ord("q"), 27)

    def close(self) -> None:
        """Close it."""
        cv2.destroyWindow(self.title)

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
