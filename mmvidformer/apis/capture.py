"""Frames of a video file, a camera or an address, one after the other."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event
from urllib.parse import urlsplit

import av
import cv2
import numpy as np

from mmvidformer.apis.ahead import newest

# What addresses may use; not files of this machine, which a playlist could name.
PROTOCOLS = "http,https,httpproxy,tls,tcp,udp,rtp,rtsp,rtmp,srt,crypto"
WAIT = 1.0  # seconds between attempts to connect
SILENCE = 10.0  # seconds without data after which a connection is given up

Frame = tuple[int, float, np.ndarray]


def is_stream(source: str | int | Path) -> bool:
    """Whether a source is the index of a camera, or an address such as ``rtsp://``."""
    text = str(source)
    return "://" in text or text.isdigit() and not Path(text).exists()


class Capture:
    """A video file, a camera or an address, read frame by frame; a context manager.

    Files and cameras are read with OpenCV, addresses with PyAV. Cameras and addresses that have no
    duration are live: they are read in a thread, and if frames come faster than they are taken, the
    oldest are dropped. If the server of a live address goes away, it is connected again.

    Args:
        source: Path of a file, index of a camera (0 is the first), or an address: ``rtsp://``,
            ``http://`` and others of FFmpeg.
        queue: Number of frames of a live source that wait to be taken, at most.
        patience: Seconds for which a live address is tried again after it went away.

    Attributes:
        is_live: Whether frames come by the clock.
        fps: Frames per second that the source states. If a camera or an address states none, 30.
        total: Number of frames that the file or address states; None if it states none, and for a
            live source.
        name: The source, without a user and a password.
        dropped: Number of frames that were dropped.
        cuts: Numbers of the first frames after live addresses came back. The number before is left
            out.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If OpenCV cannot read the file as a video, or it states no frame rate.
        ConnectionError: If the camera does not exist or cannot be opened, or the address cannot be
            reached or has no video.
    """

    def __init__(self, source: str | int | Path, queue: int = 30, patience: float = 30.0) -> None:
        self.source, self.queue, self.patience = source, queue, patience
        self.dropped, self.cuts, self._start = 0, list[int](), 0.0
        self._delays: deque[float] = deque(maxlen=1000)
        self._closed, self._reads = Event(), False
        self.name, self.total, self.is_live = str(source), None, is_stream(source)
        if "://" in self.name:
            host = urlsplit(self.name).netloc
            self.name = self.name.replace(host, host.rpartition("@")[2], 1)
            self._open_address()
            duration = self._container.duration
            self.fps = float(self._video.average_rate or self._video.guessed_rate or 30)
            self.is_live = not duration
            self.total = round(duration / av.time_base * self.fps) if duration else None
            return
        if not self.is_live and not Path(source).is_file():
            raise FileNotFoundError(f"video {source} does not exist, and is no camera or address")
        self._reader = cv2.VideoCapture(int(source) if self.is_live else self.name)
        opened, fps = self._reader.isOpened(), self._reader.get(cv2.CAP_PROP_FPS)
        known = 0 < fps < math.inf
        if self.is_live:
            self.name = f"camera {source}"
            if not opened:
                raise ConnectionError(f"{self.name} does not exist or is in use")
        elif not (opened and known):
            raise ValueError(f"OpenCV cannot read {source} as a video with a frame rate")
        else:
            self.total = max(int(self._reader.get(cv2.CAP_PROP_FRAME_COUNT)), 0) or None
        self.fps = fps if known else 30.0

    def frames(self, interval: int = 1, time_step: float | None = None) -> Iterator[Frame]:
        """Read every ``interval``-th frame, or one frame per ``time_step``, to the end.

        Args:
            interval: Distance between the frames to read, in frames; ignored with ``time_step``.
            time_step: Distance between the frames to read, in seconds: the first frame at or
                after each multiple of it.

        Yields:
            The number of the frame, from 0; its time in seconds since the first frame (by the
            frame rate of a file, by the clock if the source is live); its RGB pixels (H, W, 3),
            uint8.

        Raises:
            ValueError: If the file has no frame that OpenCV can read.
            ConnectionError: If the camera or the address ends before its time.
        """
        frames = self._choose(interval, time_step)
        if not self.is_live:
            return frames
        self._reads = True
        return newest(frames, self.queue, self._drop)

    def _choose(self, interval: int, time_step: float | None) -> Iterator[Frame]:
        number, due = -1, 0.0
        try:
            for number, retrieve in (
                self._address() if hasattr(self, "_container") else self._grab()
            ):
                clock = time.perf_counter()
                self._start = self._start or clock
                seconds = clock - self._start if self.is_live else number / self.fps
                now = seconds + 1e-6  # 15 / 30 s may be less than 2 x 0.25 s in floating point
                if now >= due if time_step else number % interval == 0:
                    if (pixels := retrieve()) is None:
                        break
                    if time_step:
                        due = (now // time_step + 1) * time_step
                    yield number, seconds, pixels
        finally:
            if self.is_live:  # here, since a device must not be closed while a thread reads it
                self._release()
        if self.is_live and not self._closed.is_set():
            raise ConnectionError(f"{self.name} stopped after {number + 1} frames")
        if number < 0 and not self._closed.is_set():
            raise ValueError(f"{self.name} has no frame that OpenCV can read")

    def _grab(self) -> Iterator[tuple[int, Callable[[], np.ndarray | None]]]:
        number = 0

        def retrieve() -> np.ndarray | None:
            read, pixels = self._reader.retrieve()
            return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB) if read else None

        while not self._closed.is_set() and self._reader.grab():
            yield number, retrieve
            number += 1

    def _address(self) -> Iterator[tuple[int, Callable[[], np.ndarray | None]]]:
        number = 0
        while not self._closed.is_set():
            reason = "the stream ended"
            try:
                for frame in self._container.decode(self._video):
                    yield number, partial(_upright, frame)
                    number += 1
                    if self._closed.is_set():
                        return
            except av.FFmpegError as error:
                reason = error.strerror
            if not self.is_live:
                if number < self.total - 1 - self.fps:
                    raise ConnectionError(f"{self.name} stopped after {number} frames: {reason}")
                return
            self._connect_again(number, reason)
            number += 1
            self.cuts.append(number)

    def _connect_again(self, number: int, reason: str) -> None:
        end = time.perf_counter() + self.patience
        while not self._closed.wait(WAIT):
            try:
                return self._open_address()
            except ConnectionError as error:
                if time.perf_counter() > end:
                    text = f"{self.name} went away after {number} frames ({reason})"
                    raise ConnectionError(f"{text} and did not come back: {error}") from error

    def _open_address(self) -> None:
        options = {"protocol_whitelist": PROTOCOLS, "rtsp_transport": "tcp"}
        try:
            self._container = av.open(
                str(self.source), container_options=options, timeout=(SILENCE, SILENCE)
            )
        except (av.FFmpegError, OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConnectionError(f"cannot open {self.name}: {reason}") from error
        if not self._container.streams.video:
            raise ConnectionError(f"{self.name} has no video")
        self._video = self._container.streams.video[0]

    def _drop(self) -> None:
        self.dropped += 1

    def was_cut(self, last: int, number: int) -> bool:
        """Whether a live address went away between two frames."""
        return any(last < cut <= number for cut in self.cuts)

    def note_delay(self, seconds: float) -> float:
        """Return the time since the frame of ``seconds`` of a live source came in, for ``report``.

        ``seconds`` are those that ``frames`` gave with the frame.
        """
        self._delays.append(time.perf_counter() - self._start - seconds)
        return self._delays[-1]

    def report(self) -> str:
        """Latency of the last thousand answers, frames that were dropped, and reconnections."""
        delays = [1000 * one for one in self._delays] or [math.nan]
        text = f"latency {median(delays):.0f} ms (median), {max(delays):.0f} ms (most)"
        return f"{text}; frames dropped: {self.dropped}, reconnections: {len(self.cuts)}"

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        if not self._reads:
            self._release()

    def _release(self) -> None:
        if hasattr(self, "_container"):
            self._container.close()
        else:
            self._reader.release()


def _upright(frame: av.VideoFrame) -> np.ndarray:
    image = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))
