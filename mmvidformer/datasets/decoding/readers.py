"""Frames of a video file by index, through decord, PyAV or OpenCV: the same frames from each."""

import io
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import cv2
import numpy as np

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_file, first_line
from mmvidformer.lookup import look_up


class VideoReader:
    """An open video, with the part of ``decord.VideoReader`` that MMAction2's transforms use.

    Frame i is the i-th in the order of display. Containers may count more frames than the stream
    has. When such a frame is met, ``len`` shrinks, and the last real frame is returned instead.
    ``open_video`` opens one.
    """

    # Subclasses have these and ``_open``; ``_from``, which yields frames with their numbers from a
    # key frame on; and ``_image``, which converts such a frame.
    name = module = ""
    # Key frames at which decoding can start, and time stamps of all frames if they number them.
    _keys, _times = np.zeros(1, int), None

    def __init__(self, path: str, source: str | io.BytesIO, num_threads: int) -> None:
        self._path, self._source, self._num_threads = path, source, num_threads
        library = import_module(self.module)
        try:
            self._open(library)
        except Exception as error:  # libraries raise several kinds
            raise self._bad("open", error) from error

    def __len__(self) -> int:
        return self._length

    def get_avg_fps(self) -> float:
        """Return the average number of frames per second."""
        return self._fps

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode frames, whose indices must ascend, to RGB images (H, W, 3), uint8.

        Raises:
            BadVideo: If a frame cannot be decoded.
        """
        try:
            return self._decode(indices)
        except Exception as error:
            raise self._bad("decode", error) from error

    def _decode(self, indices: Sequence[int]) -> list[np.ndarray]:
        images: list[np.ndarray] = []
        frames, place = self._from(0), -1
        for wanted in indices:
            key = int(self._keys[max(np.searchsorted(self._keys, wanted, "right") - 1, 0)])
            if key > place + 1:
                frames, place = self._from(key), key - 1
            while place < wanted:
                number, frame = next(frames, (None, None))
                if number is None and place < 0:
                    raise ValueError("there is no frame in it")
                if number is None:
                    self._length = place + 1
                    return self._decode(np.minimum(indices, place))
                if number > place + 1:  # a gap in the time stamps: count the frames instead
                    self._times, self._keys = None, np.zeros(1, int)
                    return self._decode(indices)
                place = number
            images.append(self._image(frame))
        return images

    def _bad(self, action: str, error: Exception) -> BadVideo:
        reason = getattr(error, "strerror", None) or first_line(error)  # PyAV's has no path
        return BadVideo(self._path, f"{self.name} cannot {action} it: {reason}")


class _DecordReader(VideoReader):
    name = module = "decord"

    def _open(self, library: ModuleType) -> None:
        self._reader = library.VideoReader(self._source, num_threads=self._num_threads)
        self._length, self._fps = len(self._reader), self._reader.get_avg_fps()

    def _decode(self, indices: Sequence[int]) -> list[np.ndarray]:
        # In AVI with B-frames decord seeks, and skips, to other frames than the wanted ones.
        if self._path.lower().endswith(".avi"):
            return super()._decode(indices)
        return list(self._reader.get_batch(indices).asnumpy())

    def _from(self, key: int) -> Iterator[tuple[int, Any]]:
        self._reader.seek(0)
        yield from enumerate(self._reader.next() for _ in range(self._length))

    def _image(self, frame: Any) -> np.ndarray:
        return frame.asnumpy()


class _PyAVReader(VideoReader):
    """Numbers frames by the time stamps of the packets, which are read once without decoding.

    Decoding starts at the last key frame before a wanted frame, or at the beginning if the times
    of display do not number the frames.
    """

    name, module = "PyAV", "av"

    def _open(self, library: ModuleType) -> None:
        self._container = library.open(self._source)
        if not self._container.streams.video:
            raise ValueError("no video stream")
        self._stream = self._container.streams.video[0]
        self._stream.codec_context.thread_count = self._num_threads
        packets = self._container.demux(self._stream)
        packets = [(p.pts, p.is_keyframe) for p in packets if p.size and not p.is_discard]
        self._length, self._fps = len(packets), float(self._stream.average_rate or 0)
        times = sorted({time for time, _ in packets if time is not None})
        self._numbers = {time: number for number, time in enumerate(times)}
        keys = [self._numbers[time] for time, is_key in packets if is_key and time is not None]
        # AVI states no times of display, and frames do not have those that FFmpeg makes up.
        if len(times) == len(packets) and keys and self._container.format.name != "avi":
            self._times, self._keys = times, np.sort(keys)

    def _from(self, key: int) -> Iterator[tuple[int, Any]]:
        start = self._times[key] if self._times and key else self._stream.start_time or 0
        self._container.seek(start, stream=self._stream)
        for count, frame in enumerate(self._container.decode(self._stream)):
            if self._times is None:
                yield count, frame
            elif frame.pts in self._numbers:
                yield self._numbers[frame.pts], frame

    def _image(self, frame: Any) -> np.ndarray:
        return frame.to_ndarray(format="rgb24")


class _OpenCVReader(VideoReader):
    """Decodes from the beginning, since OpenCV seeks as if the frame rate were constant."""

    name, module = "OpenCV", "cv2"

    def _open(self, library: ModuleType) -> None:
        if not isinstance(self._source, str):
            raise ValueError("only local files; use decord or pyav")
        capture = self._capture()
        self._fps = capture.get(cv2.CAP_PROP_FPS)
        self._length = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if self._length < 1:  # not all containers state it
            self._length = sum(1 for _ in self._from(0))
        if not self._length:
            raise ValueError("there is no frame in it")

    def _capture(self) -> cv2.VideoCapture:
        options = [cv2.CAP_PROP_N_THREADS, self._num_threads]
        capture = cv2.VideoCapture(self._source, cv2.CAP_FFMPEG, options)
        if not capture.isOpened():
            raise ValueError("unknown format")
        # OpenCV rotates a video by its rotation tag; decord and PyAV do not.
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        return capture

    def _from(self, key: int) -> Iterator[tuple[int, Any]]:
        capture, number = self._capture(), 0
        while capture.grab():
            yield number, capture
            number += 1

    def _image(self, frame: Any) -> np.ndarray:
        read, image = frame.retrieve()
        if not read:
            raise ValueError("a frame is damaged")
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


# The preferred backend first.
READERS = {"decord": _DecordReader, "pyav": _PyAVReader, "opencv": _OpenCVReader}
BACKENDS = ("auto", *READERS)


def open_video(
    path: str, backend: str = "auto", num_threads: int = 1, content: bytes | None = None
) -> VideoReader:
    """Open a video.

    Args:
        path: The file.
        backend: Backend in ``READERS``, or ``'auto'`` for the first one that is installed and opens
            the file.
        num_threads: Number of decoding threads.
        content: Content of a file that is not local.

    Raises:
        BadVideo: If the file is missing or empty, or no tried backend opens it.
        ImportError: If ``backend`` is not installed, or none is.
        KeyError: If ``backend`` is unknown.
    """
    look_up(BACKENDS, backend, "video backend")
    readers = [READERS[name] for name in READERS if backend in ("auto", name)]
    installed = [reader for reader in readers if find_spec(reader.module) is not None]
    if not installed:
        modules = " or ".join(reader.module for reader in readers)
        raise ImportError(f"to decode videos with the backend {backend!r} install {modules}")
    fault = fault_of_file(path) if content is None else None
    if fault is not None:
        raise BadVideo(path, fault)
    reasons = []
    for reader in installed:
        try:
            return reader(path, path if content is None else io.BytesIO(content), num_threads)
        except BadVideo as error:
            reasons.append(error.reason)
    raise BadVideo(path, "; ".join(reasons))
