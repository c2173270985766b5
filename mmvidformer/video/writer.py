"""Pages as an mp4 file and in a window, and where the pictures of videos go."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from av.container import OutputContainer

from mmvidformer.errors import CannotWrite, FileThere, MissingFile, UserError
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.video.sound import SoundTrack
from mmvidformer.video.times import FrameTimes


def check_display() -> None:
    """Raise a ``UserError`` if there is no display, since OpenCV would abort the process."""
    displays = ("DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(map(os.environ.get, displays)):
        raise UserError("there is no display to show a window on: DISPLAY is not set")


def picture_paths(videos: Sequence[Path], folder: Path, ending: str) -> list[Path]:
    """Paths for the pictures of videos, such as ``folder/dance_mp4_rollout.png``.

    Raises:
        FileNotFoundError: If a video does not exist.
        UserError: If two videos have the same name.
    """
    for video in videos:
        if not video.is_file():
            raise MissingFile(f"video {video} does not exist")
    names = [picture_name(video, ending).name for video in videos]
    if len(set(names)) < len(names):
        raise UserError(f"videos must have different names, got {', '.join(map(str, videos))}")
    return [folder / name for name in names]


def picture_name(video: Path, ending: str) -> Path:
    """Name of the picture or film of a video, such as ``dance_mp4_rollout.png``."""
    return video.with_name(f"{video.name.replace('.', '_')}{ending}")


class VideoOutput(AbstractContextManager):
    """An H.264 file, which browsers play, a window, or both; a context manager.

    The file is at its place when it is whole; it is not if the context ends with an error.

    Args:
        path: The .mp4 file; None: no file. Its folder is created, and an old file is replaced.
        fps: Pages per second of the file.
        title: Title of the window; None: no window.
        sound: Video of the pages, whose sound the file gets; None: no sound.

    Raises:
        OSError: If there is no display for the window.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        fps: float = 30.0,
        title: str | None = None,
        sound: str | Path | None = None,
    ) -> None:
        self.path, self.fps, self.title, self.sound = path, fps, title, sound
        self._count = 0  # of pages
        self._start: float | None = None
        self._file: OutputContainer | None = None
        self._files = ExitStack()
        self._is_new = path is not None and not Path(path).exists()
        if title is not None:
            check_display()
            try:
                cv2.namedWindow(title)
            except cv2.error as error:
                raise UserError(f"this build of OpenCV shows no windows: {error.err}") from error

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
                self._files.enter_context(self._open(*image.shape[:2]))
            self._encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24"))
        if self.title is None:
            return True
        now = time.perf_counter()
        self._start = now if self._start is None else self._start
        early = 0.0 if seconds is None else seconds - (now - self._start)
        cv2.imshow(self.title, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        return cv2.waitKey(max(1, round(1000 * early))) & 0xFF not in (ord("q"), 27)

    def __exit__(self, *error: object) -> None:
        if self.title is not None:
            cv2.destroyWindow(self.title)
        self._files.__exit__(*error)

    @contextmanager
    def _open(self, height: int, width: int) -> Iterator[None]:
        with write_atomically(self.path) as part:
            self._file = av.open(str(part), "w", "mp4", {"movflags": "faststart"})
            try:
                self._stream = self._file.add_stream("h264", Fraction(self.fps).limit_denominator())
                self._stream.height, self._stream.width = height, width
                self._stream.pix_fmt = "yuv420p"
                self._track = None
                if self.sound is not None:
                    self._track = SoundTrack(self.sound, self._file, self._files)
                with self._named_errors():
                    self._file.start_encoding()
                yield
                self._encode(None)
            finally:
                with self._named_errors():
                    self._file.close()
            if self._is_new and Path(self.path).exists():
                raise FileThere(f"{self.path} was written by another process meanwhile")

    def _encode(self, frame: av.VideoFrame | None) -> None:
        self._count += frame is not None
        with self._named_errors():
            self._file.mux(self._stream.encode(frame))
            if self._track is not None:
                self._track.write_until(FrameTimes(self.fps).seconds(self._count))

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            raise CannotWrite(error.errno, error.strerror, str(self.path)) from error
