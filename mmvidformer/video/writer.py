"""Pages as an mp4 file and in a window, and where the pictures of videos go."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path

import av
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


class VideoOutput(AbstractContextManager):
    """An H.264 file, which browsers play, a window, or both; a context manager.

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
        self._file, self._start = None, None
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        if title is not None:
            check_display()
            try:
                cv2.namedWindow(title)
            except cv2.error as error:
                raise OSError(f"this build of OpenCV shows no windows: {error.err}") from error

    def add(self, image: np.ndarray, seconds: float | None = None) -> bool:
        """Write and show an image.

        Args:
            image: RGB (H, W, 3), uint8, of even size; all images of one size.
            seconds: When to show the image, counted from the first one; default: now.

        Returns:
            Whether to continue: False if q or Esc was pressed in the window.

        Raises:
            OSError: If the file cannot be written.
        """
        if self.path is not None:
            if self._file is None:
                self._file = av.open(str(self.path), "w", "mp4", {"movflags": "faststart"})
                self._stream = self._file.add_stream("h264", Fraction(self.fps).limit_denominator())
                self._stream.height, self._stream.width = image.shape[:2]
                self._stream.pix_fmt = "yuv420p"
            self._encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24"))
        if self.title is None:
            return True
        now = time.perf_counter()
        self._start = now if self._start is None else self._start
        early = 0.0 if seconds is None else seconds - (now - self._start)
        cv2.imshow(self.title, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        return cv2.waitKey(max(1, round(1000 * early))) & 0xFF not in (ord("q"), 27)

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            with self._file:
                if error[0] is None:
                    self._encode(None)
        if self.title is not None:
            cv2.destroyWindow(self.title)

    def _encode(self, frame: av.VideoFrame | None) -> None:
        try:
            self._file.mux(self._stream.encode(frame))
        except av.FFmpegError as error:
            raise OSError(f"cannot write {self.path}: {error.strerror}") from error


def target_of(target: Path, video: Path, source: Path, suffix: str) -> Path:
    """Return where to write: the target, or a file in it if the source is a folder."""
    if source.is_dir():
        target = target / video.relative_to(source)
        target = target.with_name(target.name.replace(".", "_") + suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
