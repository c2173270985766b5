"""Pages as an mp4 file and in a window, and where the pictures of videos go."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np


def check_display() -> None:
    """Raise ``OSError`` if there is no display, since OpenCV would abort the process."""
    displays = ("DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(map(os.environ.get, displays)):
        raise OSError("there is no display to show a window on: DISPLAY is not set")


def picture_paths(videos: Sequence[Path], folder: Path, ending: str) -> list[Path]:
    """Paths for the pictures of videos, such as ``folder/dance_mp4_rollout.png``.

    The folder is created.

    Raises:
        FileNotFoundError: If a video does not exist.
        ValueError: If two videos have the same name.
    """
    for video in videos:
        if not video.is_file():
            raise FileNotFoundError(f"video {video} does not exist")
    names = [video.name.replace(".", "_") + ending for video in videos]
    if len(set(names)) < len(names):
        raise ValueError(f"videos must have different names, got {', '.join(map(str, videos))}")
    folder.mkdir(parents=True, exist_ok=True)
    return [folder / name for name in names]


class VideoOutput:
    """An MPEG-4 file, a window, or both, to which pages are added; a context manager.

    Args:
        path: The .mp4 file; None: no file. Its folder is created.
        fps: Pages per second of the file.
        title: Title of the window; None: no window.

    Raises:
        OSError: If there is no display for the window.
    """

    def __init__(
        self, path: str | Path | None = None, fps: float = 30.0, title: str | None = None
    ) -> None:
        self.path, self.fps, self.title = path, fps, title
        self._writer, self._start = None, None
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        if title is not None:
            check_display()
            try:
                cv2.namedWindow(title)
            except cv2.error as error:
                raise OSError(f"this build of OpenCV shows no windows: {error.err}") from error

    def add(self, page: np.ndarray, seconds: float | None = None) -> bool:
        """Write and show a page.

        Args:
            page: RGB (H, W, 3), uint8, of even size; all pages of one size.
            seconds: When to show the page, counted from the first one; default: now.

        Returns:
            Whether to continue: False if q or Esc was pressed in the window.

        Raises:
            OSError: If OpenCV cannot write the file.
        """
        pixels = cv2.cvtColor(page, cv2.COLOR_RGB2BGR)
        if self.path is not None:
            if self._writer is None:
                code = cv2.VideoWriter_fourcc(*"mp4v")
                size = pixels.shape[1::-1]
                self._writer = cv2.VideoWriter(str(self.path), code, self.fps, size)
                if not self._writer.isOpened():
                    raise OSError(f"OpenCV cannot write {self.path} as MPEG-4")
            self._writer.write(pixels)
        if self.title is None:
            return True
        now = time.perf_counter()
        self._start = now if self._start is None else self._start
        early = 0.0 if seconds is None else seconds - (now - self._start)
        cv2.imshow(self.title, pixels)
        return cv2.waitKey(max(1, round(1000 * early))) & 0xFF not in (ord("q"), 27)

    def __enter__(self) -> "VideoOutput":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.release()
        if self.title is not None:
            cv2.destroyWindow(self.title)
