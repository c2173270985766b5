"""Decoders of video files, behind ``Video``."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from threading import RLock
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from weakref import proxy

import numpy as np
from av import FFmpegError
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from mmvidformer.video.containers import open_container, video_stream
from mmvidformer.video.index import Index, index_of
from mmvidformer.video.times import FrameTimes

if TYPE_CHECKING:
    from torch import Tensor

PREVIEW = 128  # most pixels of a side of small images
CHUNK = 16  # frames of which readers without small images decode at a time


class Reader(ABC):
    """Decodes frames, which are numbered in the order of display. Threads may share one.

    Containers may count more frames than the stream has. When such a frame is met, ``index``
    becomes shorter, and the last real frame is returned instead.

    Attributes:
        name: Path of the file, or what else it is, for messages.
        index: The frames.
    """

    name: str
    index: Index

    @property
    def times(self) -> FrameTimes:
        """Seconds of the frames."""
        return self.index.times

    @property
    @abstractmethod
    def stored_size(self) -> tuple[int, int]:
        """Height and width of frames before they are turned upright."""

    @property
    def rotation(self) -> int:
        """Degrees by which frames are turned upright, counterclockwise."""
        return 0

    @abstractmethod
    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Decode frames, whose numbers ascend, to upright RGB images (H, W, 3), uint8."""

    def decode_tensor(self, numbers: np.ndarray) -> "Tensor":
        """Decode frames of one size to (N, H, W, 3), uint8, where the reader decodes.

        Raises:
            ValueError: If the frames differ in size.
        """
        import torch  # takes a second, and data check needs none

        return torch.from_numpy(np.stack(self.decode(numbers)))

    def previews(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the numbers of all frames, and RGB images of them, which may be small, in order."""
        for first in range(0, self.index.length, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, self.index.length))
            yield from zip(numbers.tolist(), self.decode(numbers), strict=True)


def upright(converter: VideoReformatter, frame: VideoFrame) -> np.ndarray:
    """Convert a frame to RGB pixels (H, W, 3), uint8; a rotation tag is applied."""
    image = converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


class ArrayReader(Reader):
    """Takes the frames from an array.

    Args:
        array: RGB (T, H, W, 3), uint8.
        rate: Frames per second; 0: unknown.
    """

    name = "the array"

    def __init__(self, array: np.ndarray, rate: float = 0.0) -> None:
        if array.ndim != 4 or array.shape[-1] != 3 or array.dtype != np.uint8:
            shape = f"{array.shape} of {array.dtype}"
            raise ValueError(f"an array must be (T, H, W, 3) of type uint8, got {shape}")
        self.array, self.index = array, Index(len(array), FrameTimes(rate))

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width."""
        return self.array.shape[1:3]

    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Copy frames."""
        if not len(self.array):
            raise ValueError("there is no frame in it")
        return [self.array[number].copy() for number in numbers]


class _State(NamedTuple):
    """What a call leaves to the next one, which may go on from there.

    Attributes:
        index: The index that numbers the frames.
        decoder: Yields frames and their numbers.
        last: Number of the frame that it yielded last.
        wanted: Frames that were wanted, by their numbers.
    """

    index: Index | None = None
    decoder: Iterator[tuple[int, VideoFrame]] | None = None
    last: int = -1
    wanted: Mapping[int, VideoFrame] = MappingProxyType({})


class _PyAVReader(Reader):
    """Numbers frames by the times that the container states.

    Decoding starts at the last key frame before a wanted frame, or at the beginning if the times
    of display do not number the frames; but frames of the last call are kept, and those after it
    go on from it, so that windows that move over a video decode each frame once. Frames to which no
    other refers are decoded only if they are wanted, for codecs whose decoders know them.
    """

    # Not HEVC, in which other temporal layers may refer to such frames.
    _SKIPPING = ("h264", "mpeg4", "mpeg2video")
    _state = _State()

    def __init__(
        self,
        source: str | BinaryIO,
        num_threads: int = 1,
        max_pixels: int | None = None,
        index: Index | None = None,
        device: str = "cpu",  # it knows no other
    ) -> None:
        self.source, self.num_threads, self.max_pixels = source, num_threads, max_pixels
        self.name = _name_of(source)
        self._lock = RLock()  # FFmpeg would crash if two threads used a container at once
        self._converter = VideoReformatter()
        if index is not None:
            self.index = index
        self._restart()

    @cached_property
    def index(self) -> Index:
        """The frames; of a file object that is read meanwhile, decoding starts anew."""
        with self._lock:
            index = index_of(self.source)
            if not isinstance(self.source, str):
                self._restart()
            return index

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width before frames are turned upright."""
        return self._stream.codec_context.height, self._stream.codec_context.width

    @cached_property
    def rotation(self) -> int:
        """Degrees by which frames are turned upright; decodes the first one."""
        self.decode(np.zeros(1, int))
        return round(self._state.wanted[0].rotation / 90) * 90 % 360

    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Decode frames."""
        with self._lock:
            return self._decode(numbers)

    def _decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        # The first frame alone needs no index.
        index = self.index if numbers[-1] else Index(1, FrameTimes(0.0))
        state, self._state = self._state, _State()
        if state.index is not index:
            state = _State(index)
        self._wanted, self._until = set(numbers.tolist()), numbers[-1]
        decoded = {number: state.wanted[number] for number in numbers if number in state.wanted}
        for wanted in numbers:
            if wanted in decoded:
                continue
            key = int(index.keys[max(np.searchsorted(index.keys, wanted, "right") - 1, 0)])
            if state.decoder is None or key > state.last + 1 or wanted <= state.last:
                # Files are closed when the reader is deleted, so its decoder must not refer to it.
                decoder = type(self)._decode_from(proxy(self), key, index)
                state = state._replace(decoder=decoder, last=key - 1)
            while state.last < wanted:
                number, frame = next(state.decoder, (None, None))
                if index.stamps is not None and (number is None or number > wanted):
                    # The stated times do not number the frames: count these.
                    self.index = Index(index.length, index.times)
                    return self._decode(numbers)
                if number is None and state.last < 0:
                    raise ValueError("there is no frame in it")
                if number is None:
                    self.index = index._replace(length=state.last + 1)
                    return self._decode(np.minimum(numbers, state.last))
                state = state._replace(last=number)
            decoded[wanted] = frame
        self._state = state._replace(wanted=decoded)
        return [upright(self._converter, decoded[number]) for number in numbers]

    def previews(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield all frames as small images, as they are stored, until one cannot be decoded."""
        with self._lock:
            index = self.index
            self._state, self._wanted, self._until = _State(), set(), -1  # none is left out
            frames = type(self)._decode_from(proxy(self), int(index.keys[0]), index)
            height, width = self.stored_size
            scale = min(1, PREVIEW / max(height, width))
            size = [max(1, round(scale * length)) for length in (width, height)]
            with suppress(FFmpegError):
                for number, frame in frames:
                    small = self._converter.reformat(
                        frame, *size, "rgb24", interpolation="FAST_BILINEAR", threads=1
                    )
                    yield number, small.to_ndarray()

    def _restart(self) -> None:
        """Open the file; not all formats can seek to the beginning."""
        self._close()
        self._container = open_container(self.source, self.max_pixels)
        self._stream = video_stream(self._container)
        self._stream.codec_context.thread_count = self.num_threads

    def _close(self) -> None:
        # Streams refer to their container: without this, files stay open until the next collection.
        if hasattr(self, "_container"):
            self._container.close()

    __del__ = _close

    def _decode_from(self, key: int, index: Index) -> Iterator[tuple[int, VideoFrame]]:
        if index.stamps is None:
            self._restart()
            yield from enumerate(self._container.decode(self._stream))
            return
        codec = self._stream.codec_context
        self._container.seek(int(index.stamps[key]), stream=self._stream)
        for packet in self._container.demux(self._stream):
            # Packets are read before they are due; a later call may want those after the last.
            number = -1 if packet.pts is None else index.stamps.searchsorted(packet.pts)
            skip = number < self._until and number not in self._wanted
            skip = skip and codec.name in self._SKIPPING
            codec.skip_frame = "NONREF" if skip else "DEFAULT"
            for frame in packet.decode():
                number = index.stamps.searchsorted(frame.pts or 0)
                if number < index.length and index.stamps[number] == frame.pts:
                    yield int(number), frame


class _TorchCodecReader(Reader):
    """Numbers frames by time stamps, which it reads first."""

    def __init__(
        self,
        source: str | BinaryIO,
        num_threads: int = 1,
        max_pixels: int | None = None,
        index: Index | None = None,
        device: str = "cpu",
    ) -> None:
        torchcodec = import_torchcodec()
        self.source, self.name = source, _name_of(source)
        with open_container(source, max_pixels) as container:
            stream_index = video_stream(container).index
        if not isinstance(source, str):
            source.seek(0)
        options = dict(dimension_order="NHWC", num_ffmpeg_threads=num_threads)
        options |= dict(stream_index=stream_index, device=device)
        self._lock = RLock()
        self._decoder = torchcodec.decoders.VideoDecoder(source, **options)
        rate = self._decoder.metadata.average_fps or 0.0
        self.index = Index(len(self._decoder), FrameTimes(rate))
        if index is not None:
            self.times = index.times

    @cached_property
    def times(self) -> FrameTimes:
        """Seconds of the frames, read from the file."""
        return index_of(self.source).times

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width."""
        return self._decoder.metadata.height, self._decoder.metadata.width

    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Decode frames."""
        return list(self.decode_tensor(numbers).cpu().numpy())

    def decode_tensor(self, numbers: np.ndarray) -> "Tensor":
        """Decode frames on the device."""
        with self._lock:
            return self._decoder.get_frames_at(numbers.tolist()).data


def import_torchcodec() -> ModuleType:
    """Return the package torchcodec; raises an ``ImportError`` if it or FFmpeg is missing."""
    try:
        import torchcodec
    except ImportError:
        torchcodec = None
    if torchcodec is None or torchcodec.ffmpeg_major_version is None:
        need = "torchcodec and FFmpeg 4 to 9 (such as: apt install ffmpeg)"
        raise ImportError(f"to decode videos with TorchCodec install {need}")
    return torchcodec


READERS: dict[str, type[Reader]] = {"pyav": _PyAVReader, "torchcodec": _TorchCodecReader}
# Of ``VideoInit``, the default first. MMAction2's own transforms read with decord.
BACKENDS = (*READERS, "decord")


def _name_of(source: str | BinaryIO) -> str:
    return source if isinstance(source, str) else str(getattr(source, "name", "the file"))
