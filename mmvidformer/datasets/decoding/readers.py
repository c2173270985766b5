"""Frames of a video file by number, through decord, PyAV or OpenCV: the same numbers from each.

A reader has the part of ``decord.VideoReader`` that MMAction2's transforms use: its length,
``get_avg_fps`` and ``get_batch``. Frame i is the i-th in the order of display. A frame that the
container counts but the stream lacks cuts ``len`` when it is met, and the last real one stands in.
"""

import io
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import cv2
import numpy as np

from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.faults import fault_of_file, first_line

if TYPE_CHECKING:
    import av

Source = str | io.BytesIO


class VideoReader(Protocol):
    """What the readers have in common."""

    def __len__(self) -> int:
        """Frames of the video."""

    def get_avg_fps(self) -> float:
        """Frames a second, on average over the video."""

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode frames; ``indices`` rise.

        Returns:
            An array (H, W, 3), uint8, RGB, for each index.

        Raises:
            BadVideo: If a frame cannot be decoded.
        """


class DecordReader:
    """Frames through decord.

    In AVI with B-frames decord jumps, and skips, to other frames than the wanted one (frame 5 of a
    test file gives its frame 1), so that there it is made to go frame by frame.
    """

    def __init__(self, path: str, source: Source, num_threads: int) -> None:
        import decord

        self._path, self._error = path, decord.DECORDError
        try:
            self._reader = decord.VideoReader(source, num_threads=num_threads)
        except (self._error, RuntimeError) as error:
            raise BadVideo(path, f"decord cannot open it: {first_line(error)}") from error

    def __len__(self) -> int:
        return len(self._reader)

    def get_avg_fps(self) -> float:
        """Frames a second."""
        return self._reader.get_avg_fps()

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode frames; ``indices`` rise."""
        try:
            if self._path.lower().endswith(".avi"):
                return self._in_order(indices)
            return list(self._reader.get_batch(indices).asnumpy())
        except (self._error, IndexError, StopIteration) as error:
            raise BadVideo(self._path, f"decord cannot decode it: {first_line(error)}") from error

    def _in_order(self, indices: Sequence[int]) -> list[np.ndarray]:
        self._reader.seek(0)
        images, place = [], -1
        for wanted in indices:
            while place < wanted:
                frame = self._reader.next()
                place += 1
            images.append(frame.asnumpy())
        return images


class PyAVReader:
    """Frames through PyAV, told by the time stamps of the packets.

    The packets are read once on opening, without decoding. Where their times of display number the
    frames, decoding starts at the last key frame before a wanted frame, elsewhere at the beginning.
    """

    def __init__(self, path: str, source: Source, num_threads: int) -> None:
        import av

        self._path, self._av = path, av
        try:
            self._container = av.open(source)
            if not self._container.streams.video:
                raise BadVideo(path, "PyAV cannot open it: no video stream")
            self._stream = self._container.streams.video[0]
            self._stream.codec_context.thread_count = num_threads
            packets = [
                (packet.pts, packet.is_keyframe)
                for packet in self._container.demux(self._stream)
                if packet.size and not packet.is_discard
            ]
        except av.FFmpegError as error:
            raise BadVideo(path, f"PyAV cannot open it: {error.strerror}") from error
        self._length = len(packets)
        times = sorted({time for time, _ in packets if time is not None})
        numbers = {time: number for number, time in enumerate(times)}
        keys = [numbers[time] for time, is_key in packets if is_key and time is not None]
        # AVI states no times of display; what FFmpeg makes up is not what frames then carry.
        timed = len(times) == len(packets) and keys and self._container.format.name != "avi"
        self._times, self._numbers = times if timed else None, numbers
        self._keys = np.sort(keys) if timed else np.zeros(1, int)

    def __len__(self) -> int:
        return self._length

    def get_avg_fps(self) -> float:
        """Frames a second."""
        return float(self._stream.average_rate or 0)

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode frames; ``indices`` rise."""
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
                raise BadVideo(self._path, "PyAV finds no frame in it") from None
            self._length = place + 1
            return self.get_batch(np.minimum(indices, place))
        except self._av.FFmpegError as error:
            raise BadVideo(self._path, f"PyAV cannot decode it: {error.strerror}") from error
        return images

    def _from(self, key: int) -> Iterator[tuple[int, "av.VideoFrame"]]:
        """Frames and their numbers, from a key frame on."""
        start = self._times[key] if self._times and key else self._stream.start_time or 0
        self._container.seek(start, stream=self._stream)
        for count, frame in enumerate(self._container.decode(self._stream)):
            if self._times is None:
                yield count, frame
            elif frame.pts in self._numbers:
                yield self._numbers[frame.pts], frame


class OpenCVReader:
    """Frames through OpenCV, which decodes from the beginning and converts what is wanted.

    Jumping in OpenCV goes by a constant frame rate, which not all files have.
    """

    def __init__(self, path: str, source: Source, num_threads: int) -> None:
        if not isinstance(source, str):
            raise BadVideo(path, "OpenCV reads local files only; take decord or pyav")
        self._path, self._num_threads = path, num_threads
        capture = self._open()
        self._fps = capture.get(cv2.CAP_PROP_FPS)
        self._length = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if self._length < 1:  # not all containers state it
            self._length = 0
            while capture.grab():
                self._length += 1
        capture.release()
        if self._length < 1:
            raise BadVideo(path, "OpenCV finds no frame in it")

    def __len__(self) -> int:
        return self._length

    def get_avg_fps(self) -> float:
        """Frames a second."""
        return self._fps

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode frames; ``indices`` rise."""
        capture, place = self._open(), -1
        images: list[np.ndarray] = []
        for wanted in indices:
            while place < wanted and capture.grab():
                place += 1
            if place < 0:
                raise BadVideo(self._path, "OpenCV finds no frame in it")
            if place < wanted:
                self._length = place + 1
                return self.get_batch(np.minimum(indices, place))
            read, image = capture.retrieve()
            if not read:
                raise BadVideo(self._path, f"OpenCV cannot decode frame {wanted}")
            images.append(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
        capture.release()
        return images

    def _open(self) -> cv2.VideoCapture:
        options = [cv2.CAP_PROP_N_THREADS, self._num_threads]
        capture = cv2.VideoCapture(self._path, cv2.CAP_FFMPEG, options)
        if not capture.isOpened():
            raise BadVideo(self._path, "OpenCV cannot open it")
        # OpenCV turns a video by its rotation tag; decord and PyAV do not.
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        return capture


# Backend: its module and reader, the preferred first.
READERS: dict[str, tuple[str, type[VideoReader]]] = {
    "decord": ("decord", DecordReader),
    "pyav": ("av", PyAVReader),
    "opencv": ("cv2", OpenCVReader),
}


def open_video(
    path: str, backend: str = "auto", num_threads: int = 1, content: bytes | None = None
) -> VideoReader:
    """Open a video.

    Args:
        path: The file.
        backend: Row of ``READERS``, or ``'auto'``: the first that is installed and opens the file.
        num_threads: Threads that decode.
        content: The file's bytes, where it is not a local one.

    Raises:
        BadVideo: If there is no such file or it is empty, or no tried backend opens it, with what
            each says.
        ImportError: If ``backend`` is not installed, or none is.
        ValueError: If ``backend`` is unknown.
    """
    if backend not in ("auto", *READERS):
        raise ValueError(f"backend must be auto, {', '.join(READERS)}; got {backend!r}")
    tried = list(READERS) if backend == "auto" else [backend]
    installed = [name for name in tried if find_spec(READERS[name][0]) is not None]
    if not installed:
        modules = " or ".join(READERS[name][0] for name in tried)
        raise ImportError(f"to decode videos with backend {backend!r} install {modules}")
    plain = fault_of_file(path) if content is None else None
    if plain is not None:
        raise BadVideo(path, plain)
    reasons = []
    for name in installed:
        try:
            source = path if content is None else io.BytesIO(content)
            return READERS[name][1](path, source, num_threads)
        except BadVideo as error:
            reasons.append(error.reason)
    raise BadVideo(path, "; ".join(reasons))
