"""Frames of a video file by index, through decord, PyAV or OpenCV: the same frames from each."""

import io
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import cv2
import numpy as np

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_file, first_line
from mmvidformer.lookup import look_up

if TYPE_CHECKING:
    import av


class VideoReader:
    """An open video, with the part of ``decord.VideoReader`` that MMAction2's transforms use.

    Frame i is the i-th in the order of display. Containers may count more frames than the stream
    has. When such a frame is met, ``len`` shrinks, and the last real frame is returned instead.

    Args:
        path: The file.
        source: Its path, or its content.
        num_threads: Number of decoding threads.

    Raises:
        BadVideo: If the file cannot be opened.
    """

    def __init__(self, path: str, source: str | io.BytesIO, num_threads: int) -> None:
        self._path, self._source, self._num_threads = path, source, num_threads
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def get_avg_fps(self) -> float:
        """Return the average number of frames per second."""
        raise NotImplementedError

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode frames.

        Args:
            indices: Indices of the frames, in ascending order.

        Returns:
            For each index an RGB image (H, W, 3), uint8.

        Raises:
            BadVideo: If a frame cannot be decoded.
        """
        raise NotImplementedError

    def _bad(self, reason: str) -> BadVideo:
        return BadVideo(self._path, reason)


class _DecordReader(VideoReader):
    def __init__(self, *args) -> None:
        super().__init__(*args)
        import decord

        self._error = decord.DECORDError
        try:
            self._reader = decord.VideoReader(self._source, num_threads=self._num_threads)
        except (self._error, RuntimeError) as error:
            raise self._bad(f"decord cannot open it: {first_line(error)}") from error
        self._length = len(self._reader)

    def get_avg_fps(self) -> float:
        return self._reader.get_avg_fps()

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        try:
            # In AVI with B-frames decord seeks, and skips, to other frames than the wanted ones.
            if self._path.lower().endswith(".avi"):
                return self._in_order(indices)
            return list(self._reader.get_batch(indices).asnumpy())
        except (self._error, IndexError, StopIteration) as error:
            raise self._bad(f"decord cannot decode it: {first_line(error)}") from error

    def _in_order(self, indices: Sequence[int]) -> list[np.ndarray]:
        self._reader.seek(0)
        images, place = [], -1
        for wanted in indices:
            while place < wanted:
                frame = self._reader.next()
                place += 1
            images.append(frame.asnumpy())
        return images


class _PyAVReader(VideoReader):
    """Numbers frames by the time stamps of the packets, which are read once without decoding.

    Decoding starts at the last key frame before a wanted frame, or at the beginning if the times
    of display do not number the frames.
    """

    def __init__(self, *args) -> None:
        super().__init__(*args)
        import av

        self._error = av.FFmpegError
        try:
            self._container = av.open(self._source)
            if not self._container.streams.video:
                raise self._bad("PyAV cannot open it: no video stream")
            self._stream = self._container.streams.video[0]
            self._stream.codec_context.thread_count = self._num_threads
            packets = [
                (packet.pts, packet.is_keyframe)
                for packet in self._container.demux(self._stream)
                if packet.size and not packet.is_discard
            ]
        except av.FFmpegError as error:
            raise self._bad(f"PyAV cannot open it: {error.strerror}") from error
        self._length = len(packets)
        times = sorted({time for time, _ in packets if time is not None})
        self._numbers = {time: number for number, time in enumerate(times)}
        keys = [self._numbers[time] for time, is_key in packets if is_key and time is not None]
        # AVI states no times of display, and frames do not have those that FFmpeg makes up.
        timed = len(times) == len(packets) and keys and self._container.format.name != "avi"
        self._times = times if timed else None
        self._keys = np.sort(keys) if timed else np.zeros(1, int)

    def get_avg_fps(self) -> float:
        return float(self._stream.average_rate or 0)

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        images: list[np.ndarray] = []
        frames, place = self._from(0), -1
        try:
            for wanted in indices:
                key = int(self._keys[max(np.searchsorted(self._keys, wanted, "right") - 1, 0)])
                if key > place + 1:
                    frames, place = self._from(key), key - 1
                while place < wanted:
                    number, frame = next(frames)
                    if number > place + 1:  # a gap: count the frames instead
                        self._times, self._keys = None, np.zeros(1, int)
                        return self.get_batch(indices)
                    place = number
                images.append(frame.to_ndarray(format="rgb24"))
        except StopIteration:
            if place < 0:
                raise self._bad("PyAV finds no frame in it") from None
            self._length = place + 1
            return self.get_batch(np.minimum(indices, place))
        except self._error as error:
            raise self._bad(f"PyAV cannot decode it: {error.strerror}") from error
        return images

    def _from(self, key: int) -> Iterator[tuple[int, "av.VideoFrame"]]:
        """Frames and their numbers from a key frame on."""
        start = self._times[key] if self._times and key else self._stream.start_time or 0
        self._container.seek(start, stream=self._stream)
        for count, frame in enumerate(self._container.decode(self._stream)):
            if self._times is None:
                yield count, frame
            elif frame.pts in self._numbers:
                yield self._numbers[frame.pts], frame


class _OpenCVReader(VideoReader):
    """Decodes from the beginning, since OpenCV seeks as if the frame rate were constant."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        if not isinstance(self._source, str):
            raise self._bad("OpenCV reads local files only; use decord or pyav")
        capture = self._open()
        self._fps = capture.get(cv2.CAP_PROP_FPS)
        self._length = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if self._length < 1:  # not all containers state it
            self._length = 0
            while capture.grab():
                self._length += 1
        if not self._length:
            raise self._bad("OpenCV finds no frame in it")

    def get_avg_fps(self) -> float:
        return self._fps

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        capture, place = self._open(), -1
        images: list[np.ndarray] = []
        for wanted in indices:
            while place < wanted and capture.grab():
                place += 1
            if place < 0:
                raise self._bad("OpenCV finds no frame in it")
            if place < wanted:
                self._length = place + 1
                return self.get_batch(np.minimum(indices, place))
            read, image = capture.retrieve()
            if not read:
                raise self._bad(f"OpenCV cannot decode frame {wanted}")
            images.append(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
        return images

    def _open(self) -> cv2.VideoCapture:
        options = [cv2.CAP_PROP_N_THREADS, self._num_threads]
        capture = cv2.VideoCapture(self._source, cv2.CAP_FFMPEG, options)
        if not capture.isOpened():
            raise self._bad("OpenCV cannot open it")
        # OpenCV rotates a video by its rotation tag; decord and PyAV do not.
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        return capture


# Backend: its module and reader, the preferred first.
READERS: dict[str, tuple[str, type[VideoReader]]] = {
    "decord": ("decord", _DecordReader),
    "pyav": ("av", _PyAVReader),
    "opencv": ("cv2", _OpenCVReader),
}
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
    tried = list(READERS) if backend == "auto" else [backend]
    installed = [name for name in tried if find_spec(READERS[name][0]) is not None]
    if not installed:
        modules = " or ".join(READERS[name][0] for name in tried)
        raise ImportError(f"to decode videos with the backend {backend!r} install {modules}")
    fault = fault_of_file(path) if content is None else None
    if fault is not None:
        raise BadVideo(path, fault)
    reasons = []
    for name in installed:
        source = path if content is None else io.BytesIO(content)
        try:
            return READERS[name][1](path, source, num_threads)
        except BadVideo as error:
            reasons.append(error.reason)
    raise BadVideo(path, "; ".join(reasons))
