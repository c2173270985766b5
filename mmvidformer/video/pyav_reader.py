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

from mmvidformer.video.containers import decode_frames, open_container, read_packets, video_stream
from mmvidformer.video.errors import BadVideo, blame, name_of
from mmvidformer.video.facts import require_frames
from mmvidformer.video.index import Index, decoded_index, index_of
from mmvidformer.video.orientation import Orientation, orientation_of, upright
from mmvidformer.video.reader import Reader
from mmvidformer.video.times import FrameTimes

PREVIEW = 128  # most pixels of a side of small images
MOST_PIXELS = 1 << 27  # of frames that are kept for the next call: 64 of 1920 x 1080

Numbered = Iterator[tuple[int, VideoFrame]]


class _WrongIndex(Exception):
    """What is decoded is not what the index states.

    Attributes:
        length: Number of frames, if all were decoded.
    """

    def __init__(self, length: int | None = None) -> None:
        super().__init__(length)
        self.length = length


class _State(NamedTuple):
    """What a call leaves to the next one, which may go on from there.

    Attributes:
        index: The index that numbers the frames.
        decoder: Yields frames and their numbers.
        last: Number of the frame that it yielded last.
        wanted: Frames that were wanted last, by their numbers.
    """

    index: Index | None = None
    decoder: Numbered | None = None
    last: int = -1
    wanted: Mapping[int, VideoFrame] = MappingProxyType({})


class PyAVReader(Reader):
    """Returns the frames that decoding from the beginning returns, and numbers them by their times.

    Decoding starts at the last key frame before a wanted frame, or at the beginning if the times
    of display do not number the frames; but frames of the last call are kept, and those after it
    go on from it, so that windows that move over a video decode each frame once. Frames to which no
    other refers are decoded only if they are wanted, for codecs whose decoders know them.

    What a container states is not trusted: a key frame must be one to the decoder, and frames must
    come at their times and undamaged. If not, decoding starts at the beginning, and then with an
    index of what was decoded.
    """

    # Not HEVC, in which other temporal layers may refer to such frames.
    _SKIPPING = ("h264", "mpeg4", "mpeg2video")
    # The first packet tells these decoders what encoded it, whose faults they allow for.
    _INFORMED = ("h264", "mpeg4")
    _state = _State()

    def __init__(
        self,
        source: str | BinaryIO,
        num_threads: int = 1,
        max_pixels: int | None = None,
        index: Index | None = None,
    ) -> None:
        self.source, self.num_threads, self.max_pixels = source, num_threads, max_pixels
        self.name = name_of(source)
        self._lock = RLock()  # FFmpeg would crash if two threads used a container at once
        self._converter = VideoReformatter()
        self._is_decoded_index = False
        if index is not None:
            self.index = index
        self._restart()

    @cached_property
    def index(self) -> Index:
        """The frames; of a file object that is read meanwhile, decoding starts anew."""
        with self._lock:
            index = index_of(self.source, self.max_pixels)
            if not isinstance(self.source, str):
                self._restart()
            return index

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width before frames are turned upright."""
        return self._stream.codec_context.height, self._stream.codec_context.width

    @cached_property
    def orientation(self) -> Orientation:
        """How frames are turned upright; decodes the first one."""
        with self._lock:
            self.decode(np.zeros(1, int))
            return orientation_of(self._state.wanted[0])

    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Decode frames."""
        with self._lock, blame(self.name):
            while True:
                # The first frame alone needs no index.
                index = self.index if numbers[-1] else Index(1, FrameTimes(0.0))
                try:
                    return self._decode(numbers, index)
                except _WrongIndex as error:
                    self.index = self._doubt(index, error.length)
                    numbers = _renumber(numbers, index, self.index)

    def _decode(self, numbers: np.ndarray, index: Index) -> list[np.ndarray]:
        state, self._state = self._state, _State()
        if state.index is not index:
            state = _State(index)
        self._wanted, self._until = set(numbers.tolist()), numbers[-1]
        kept = {number: state.wanted[number] for number in numbers if number in state.wanted}
        images: dict[int, np.ndarray] = {}
        for wanted in numbers.tolist():
            if wanted in images:
                continue
            if wanted not in kept:
                state, kept[wanted] = self._decode_one(wanted, state)
            pixels = kept[wanted].width * kept[wanted].height
            while len(kept) > max(MOST_PIXELS // pixels, 1) and min(kept) < wanted:
                first = min(kept)
                images[first] = upright(self._converter, kept.pop(first))
        # Not between two frames: decoding finds its data in the processor's cache.
        images |= {number: upright(self._converter, frame) for number, frame in kept.items()}
        self._state = state._replace(wanted=kept)
        return [images[number] for number in numbers.tolist()]

    def _decode_one(self, wanted: int, state: _State) -> tuple[_State, VideoFrame]:
        """Decode until a frame that comes after those of the state or lies elsewhere."""
        index = state.index
        key = int(index.keys[max(np.searchsorted(index.keys, wanted, "right") - 1, 0)])
        if state.decoder is None or key > state.last + 1 or wanted <= state.last:
            # Files are closed when the reader is deleted, so its decoder must not refer to it.
            decoder = type(self)._decode_from(proxy(self), key, index)
            state = state._replace(decoder=decoder, last=key - 1)
        while state.last < wanted:
            number, frame = next(state.decoder, (None, None))
            if number is None:
                require_frames(self.name, state.last + 1)
            if number is None and index.stamps is None:
                raise _WrongIndex(state.last + 1)
            if number is None or number > wanted:
                raise _WrongIndex
            state = state._replace(last=number)
        return state, frame

    def _doubt(self, index: Index, length: int | None) -> Index:
        """Return an index that trusts the container less than another one.

        Args:
            index: The other one.
            length: Number of frames, if it is known.
        """
        if length is not None:
            return index._replace(length=length)
        if len(index.keys) > 1:
            return index._replace(keys=index.keys[:1])
        if self._is_decoded_index:
            return Index(index.length, index.times)
        self._is_decoded_index = True
        decoded = decoded_index(self.source, self.max_pixels)
        self._restart()  # file objects were read meanwhile
        return decoded

    def previews(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield all frames as small images, as they are stored, until one cannot be decoded."""
        with self._lock:
            index = self.index
            self._state, self._wanted, self._until = _State(), set(), -1  # none is left out
            height, width = self.stored_size
            scale = min(1, PREVIEW / max(height, width))
            size = [max(1, round(scale * length)) for length in (width, height)]
            last, is_right = -1, False
            with suppress(BadVideo), blame(self.name):
                while not is_right:
                    frames = type(self)._decode_from(proxy(self), int(index.keys[0]), index)
                    try:
                        for number, frame in frames:
                            if number > last:
                                small = self._converter.reformat(
                                    frame, *size, "rgb24", interpolation="FAST_BILINEAR", threads=1
                                )
                                yield number, small.to_ndarray()
                                last = number
                        is_right = True
                    except _WrongIndex as error:
                        index = self.index = self._doubt(index, error.length)

    def _restart(self) -> None:
        """Open the file; not all formats can seek to the beginning."""
        self._close()
        self._container = open_container(self.source, self.max_pixels)
        self._stream = video_stream(self._container)
        self._stream.codec_context.thread_count = self.num_threads
        self._is_new = True

    def _close(self) -> None:
        # Streams refer to their container: without this, files stay open until the next collection.
        if hasattr(self, "_container"):
            self._container.close()

    __del__ = _close

    def _decode_from(self, key: int, index: Index) -> Numbered:
        """Yield frames and their numbers, from a key frame on.

        Raises:
            _WrongIndex: If they are not those of the index.
            BadVideo: If one is damaged, though decoding began at the beginning.
        """
        is_beginning = index.stamps is None or key == index.keys[0]
        if is_beginning and not self._is_new:
            self._restart()
        if index.stamps is None:
            self._is_new = False
            yield from enumerate(decode_frames(self._container, self.name))
            return
        if not is_beginning:
            self._seek(int(index.stamps[key]))
        self._is_new = False
        due, codec = key, self._stream.codec_context
        for packet in read_packets(self._container, self.name):
            # Packets are read before they are due; a later call may want those after the last.
            number = -1 if packet.pts is None else index.stamps.searchsorted(packet.pts)
            skip = number < self._until and number not in self._wanted
            skip = skip and codec.name in self._SKIPPING
            codec.skip_frame = "NONREF" if skip else "DEFAULT"
            for frame in packet.decode():
                if not is_beginning and frame.pts is not None and frame.pts < index.stamps[key]:
                    continue  # it may refer to what is before the key frame
                number = int(index.stamps.searchsorted(frame.pts or 0))
                is_stated = number < index.length and index.stamps[number] == frame.pts
                is_start = is_beginning or due > key or number == key and frame.key_frame
                if not is_stated or number < due or not is_start:
                    raise _WrongIndex
                if frame.is_corrupt and not is_beginning:
                    raise _WrongIndex
                if frame.is_corrupt:
                    raise BadVideo(self.name, f"frame {number} is damaged")
                due = number + 1
                yield number, frame

    def _seek(self, stamp: int) -> None:
        if self._is_new and self._stream.codec_context.name in self._INFORMED:
            self._stream.codec_context.skip_frame = "ALL"
            with suppress(FFmpegError):
                next(self._container.demux(self._stream)).decode()
        self._container.seek(stamp, stream=self._stream)


def _renumber(numbers: np.ndarray, before: Index, now: Index) -> np.ndarray:
    """Return the numbers (n,) of the frames of one index in another one of the same file."""
    if before.stamps is not None and now.stamps is not None:
        stamps = before.stamps[np.minimum(numbers, before.length - 1)]
        numbers = np.maximum(now.stamps.searchsorted(stamps, "right") - 1, 0)
    return np.minimum(numbers, now.length - 1)
