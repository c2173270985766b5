"""The reader that decodes by PyAV, which is FFmpeg."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from threading import RLock
from types import MappingProxyType
from typing import BinaryIO, NamedTuple
from weakref import proxy

import numpy as np
from av import FFmpegError
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from mmvidformer.video.containers import open_container, video_stream
from mmvidformer.video.index import Index, index_of
from mmvidformer.video.progress import note_progress
from mmvidformer.video.reader import Reader, name_of
from mmvidformer.video.times import FrameTimes

PREVIEW = 128  # most pixels of a side of small images


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


class PyAVReader(Reader):
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
        self.name = name_of(source)
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
            for number, frame in enumerate(self._container.decode(self._stream)):
                note_progress()
                yield number, frame
            return
        codec = self._stream.codec_context
        self._container.seek(int(index.stamps[key]), stream=self._stream)
        for packet in self._container.demux(self._stream):
            note_progress()
            # Packets are read before they are due; a later call may want those after the last.
            number = -1 if packet.pts is None else index.stamps.searchsorted(packet.pts)
            skip = number < self._until and number not in self._wanted
            skip = skip and codec.name in self._SKIPPING
            codec.skip_frame = "NONREF" if skip else "DEFAULT"
            for frame in packet.decode():
                number = index.stamps.searchsorted(frame.pts or 0)
                if number < index.length and index.stamps[number] == frame.pts:
                    yield int(number), frame


def upright(converter: VideoReformatter, frame: VideoFrame) -> np.ndarray:
    """Convert a frame to RGB pixels (H, W, 3), uint8; a rotation tag is applied."""
    image = converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))
