"""Frames of a video file, a camera or an address, one after the other."""

import itertools
import math
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from threading import Event, Thread

import av
import cv2
import numpy as np
from av.video.reformatter import VideoReformatter

from mmvidformer.errors import MissingFile
from mmvidformer.video.connection import (
    is_stream,
    open_address,
    open_camera,
    public_name,
    reason_of,
)
from mmvidformer.video.containers import decode_frames, find_video, keep_time, open_container
from mmvidformer.video.errors import CaptureLost
from mmvidformer.video.facts import require_frames
from mmvidformer.video.index import index_of, repeat_frames
from mmvidformer.video.orientation import upright
from mmvidformer.video.times import FrameTimes

WAIT = 1.0  # seconds between attempts to connect

Frame = tuple[int, float, np.ndarray]


class FrameSource:
    """Frames, one after the other: a ``Capture``, or what passes on those of one.

    Attributes:
        name: Its name, for messages and predictions.
        fps: Frames per second that it states.
        is_live: Whether frames come by the clock.
        cuts: Numbers of the first frames after live addresses came back.
    """

    name: str
    fps: float
    is_live: bool
    cuts: list[int]

    @abstractmethod
    def frames(self, interval: int = 1, time_step: float | None = None) -> Iterator[Frame]:
        """Read frames; see ``Capture.frames``."""


class Capture(FrameSource, AbstractContextManager):
    """A video file, a camera or an address, read frame by frame once; a context manager.

    Files and addresses are read with PyAV, cameras with OpenCV. Cameras and addresses that have no
    duration are live: they are read in a thread, and if frames come faster than they are taken, the
    oldest are dropped. If the server of a live address goes away, it is connected again.

    Args:
        source: Path of a file, index of a camera (0 is the first), or an address: ``rtsp://``,
            ``http://`` and others of FFmpeg.
        queue: Number of frames of a live source that wait to be taken, at most.
        patience: Seconds for which a live address is tried again after it went away.

    Attributes:
        is_live: Whether frames come by the clock.
        fps: Frames per second that the source states; 30 if it states none.
        total: Number of frames that the source states; None if it states none or is live.
        name: The source, without a user, a password and a query, which may hold them too.
        dropped: Number of frames that were dropped.
        cuts: Numbers of the first frames after live addresses came back. The number before is left
            out.

    Raises:
        FileNotFoundError: If the file does not exist.
        BadVideo: If the file cannot be read as a video.
        CaptureLost: If the camera does not exist or cannot be opened, or the address cannot be
            reached or has no video.
    """

    def __init__(self, source: str | int | Path, queue: int = 30, patience: float = 30.0) -> None:
        self.source, self.queue, self.patience = source, queue, patience
        self.dropped, self.cuts = 0, list[int]()
        self._start = 0.0  # of a live source, by the clock
        self._delays: deque[float] = deque(maxlen=1000)
        self._closed = Event()
        self._camera = self._index = None  # both are None for an address
        self._waiting: SimpleQueue = SimpleQueue()  # frames of a live source
        self.name, self.total, self.is_live = str(source), None, is_stream(source)
        self._is_address = "://" in self.name
        if self.is_live and not self._is_address:
            self.name, self._camera = f"camera {source}", open_camera(int(source))
            fps = self._camera.get(cv2.CAP_PROP_FPS)
            self.fps = fps if 0 < fps < math.inf else 30.0
            return
        if self._is_address:
            self.name = public_name(self.name)
        elif not Path(source).is_file():
            raise MissingFile(f"video {source} does not exist, and is no camera or address")
        self._open()
        seconds = (self._container.duration or 0) / av.time_base
        self.fps = float(self._video.average_rate or self._video.guessed_rate or 30)
        if not self._is_address:
            self._index = index_of(str(source))
            self.fps = float(self._index.times.constant_rate) or self.fps
        self.is_live = self._is_address and not seconds
        self.total = self._video.frames or round(FrameTimes(self.fps).count(seconds)) or None
        if self._index is not None and (repeats := self._index.times.repeats()) is not None:
            self.total = int(repeats.sum())
        self._end = seconds + (self._container.start_time or 0) / av.time_base

    def frames(self, interval: int = 1, time_step: float | None = None) -> Iterator[Frame]:
        """Read every ``interval``-th frame, or one frame per ``time_step``, to the end.

        Args:
            interval: Distance between the frames to read, in frames; ignored with ``time_step``.
            time_step: Distance between the frames to read, in seconds: the first frame at or
                after each multiple of it.

        Yields:
            The number of the frame, from 0; its time in seconds since the first frame (of a file
            ``number / fps``, by the clock if the source is live); its RGB pixels (H, W, 3),
            uint8.

        Raises:
            BadVideo: If a frame of the file cannot be decoded, or there is none.
            CaptureLost: If the camera or the address ends before its time.
        """
        frames = self._choose(interval, time_step)
        return self._newest(frames) if self.is_live else frames

    def _newest(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield frames, which a thread reads as fast as they come, and its error after them."""
        waiting, errors = self._waiting, list[Exception]()

        def fill() -> None:
            try:
                for frame in frames:
                    if waiting.qsize() == self.queue:
                        with suppress(Empty):  # it was taken meanwhile
                            waiting.get_nowait()
                            self.dropped += 1
                    waiting.put(frame)
            except Exception as error:
                errors.append(error)
            finally:
                waiting.put(None)

        thread = Thread(target=fill, daemon=True)
        thread.start()
        try:
            yield from iter(waiting.get, None)
        finally:
            self._closed.set()
            thread.join(timeout=1)
        if errors:
            raise errors[0]

    def _choose(self, interval: int, time_step: float | None) -> Iterator[Frame]:
        number, due, times = -1, 0.0, FrameTimes(self.fps)
        try:
            for number, retrieve in self._decode() if self._camera is None else self._shoot():
                clock = time.perf_counter()
                self._start = self._start or clock
                seconds = clock - self._start if self.is_live else times.seconds(number)
                now = seconds + 1e-6  # 15 / 30 s may be less than 2 x 0.25 s in floating point
                if now >= due if time_step else number % interval == 0:
                    if time_step:
                        due = (now // time_step + 1) * time_step
                    yield number, seconds, retrieve()
        finally:  # here, since a device must not be closed while a thread reads it
            if self._camera is None:
                self._container.close()
            else:
                self._camera.release()
        if self.is_live and not self._closed.is_set():
            raise CaptureLost(f"{self.name} stopped after {number + 1} frames")
        if not self._closed.is_set():
            require_frames(self.name, number + 1)

    def _shoot(self) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
        for number in itertools.count():
            read, pixels = self._camera.read()
            if not read or self._closed.is_set():
                return
            yield number, partial(cv2.cvtColor, pixels, cv2.COLOR_BGR2RGB)

    def _decode(self) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
        number, last, converter = 0, 0.0, VideoReformatter()
        while not self._closed.is_set():
            reason = "the stream ended"
            try:
                if self._index is not None:
                    frames = repeat_frames(decode_frames(self._container, self.name), self._index)
                else:
                    frames = self._container.decode(self._video)
                    if not self.is_live:
                        frames = keep_time(frames, self.fps)
                for frame in frames:
                    yield number, partial(upright, converter, frame)
                    number, last = number + 1, frame.time or 0.0
                    if self._closed.is_set():
                        return
            except av.FFmpegError as error:
                reason = reason_of(error)
            if not self.is_live:
                # At a variable rate there may be fewer frames than the rate tells.
                early = self._is_address and last < self._end - 1
                if early and number < self.total - 1 - self.fps:
                    raise CaptureLost(f"{self.name} stopped after {number} frames: {reason}")
                return
            self._container.close()  # PyAV's cycles would keep the connection open
            self._connect_again(number, reason)
            number += 1
            self.cuts.append(number)

    def _connect_again(self, number: int, reason: str) -> None:
        end = time.perf_counter() + self.patience
        while not self._closed.wait(WAIT):
            try:
                return self._open()
            except ConnectionError as error:
                if time.perf_counter() > end:
                    text = f"{self.name} went away after {number} frames ({reason})"
                    raise CaptureLost(f"{text} and did not come back: {error}") from error

    def _open(self) -> None:
        if self._is_address:
            self._container, self._video = open_address(str(self.source))
        else:
            self._container = open_container(str(self.source))
            self._video = find_video(self._container, self.name)

    def note_delay(self, seconds: float) -> float:
        """Return the time since the frame of ``seconds`` of a live source came in, for ``report``.

        ``seconds`` are those that ``frames`` gave with the frame.
        """
        self._delays.append(time.perf_counter() - self._start - seconds)
        return self._delays[-1]

    def report(self) -> str:
        """Latency of the last thousand answers, frames that were dropped, and reconnections."""
        delays = [1000 * delay for delay in self._delays] or [math.nan]
        text = f"latency {median(delays):.0f} ms (median), {max(delays):.0f} ms (most)"
        return f"{text}; frames dropped: {self.dropped}, reconnections: {len(self.cuts)}"

    def close(self) -> None:
        """End the frames, also for a thread that waits for them."""
        self._closed.set()
        self._waiting.put(None)

    def __exit__(self, *error: object) -> None:
        self.close()
