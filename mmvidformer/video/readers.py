import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from weakref import proxy

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from mmvidformer.video.containers import (
    Index,
    index_of,
    open_container,
    video_stream,
)


class Frames(list):
    """RGB images (H, W, 3), uint8, in the form that ``DecordDecode`` takes."""

    def asnumpy(self) -> "Frames":
        """Return the images."""
        return self


class VideoReader:
    """An open video, with the part of ``decord.VideoReader`` that MMAction2's transforms use.

    Frame i is the i-th in the order of display, until ``number_by_time`` is called. Containers may
    count more frames than the stream has. When such a frame is met, ``len`` shrinks, and the last
    real frame is returned instead. Frames are upright: a rotation tag is applied. ``open_video``
    opens one.
    """

    _shown: np.ndarray | None = None  # the frame of each number, see number_by_time
    _shown_rate = 0.0
    is_numbered_by_time = False

    # Subclasses have ``_open``, ``_decode`` and ``_index``.
    def __init__(self, path: str, num_threads: int = 1, max_pixels: int | None = None) -> None:
        self.path, self.num_threads, self.max_pixels = path, num_threads, max_pixels
        self._open()

    def __len__(self) -> int:
        if not self._index.length:
            raise ValueError("there is no frame in it")
        return self._index.length if self._shown is None else len(self._shown)

    def get_avg_fps(self) -> float:
        """Return the average number of frames per second."""
        return self._index.fps if self._shown is None else self._shown_rate

    def number_by_time(self) -> None:
        """Let frame k be the one that is shown ``k / get_avg_fps()`` seconds after the first one.

        At a rate that varies, as in recordings of telephones and screens, frames are left out and
        repeated for that, by the times that the container states. Files of a constant rate, and
        those that state no times (AVI), stay as they are.
        """
        self.is_numbered_by_time = True
        rate, counts = index_of(self.path).constant_rate()
        if counts is not None:
            self._shown, self._shown_rate = np.repeat(np.arange(len(counts)), counts), float(rate)

    def get_batch(self, indices: Sequence[int]) -> Frames:
        """Decode frames, each of them once. Those beyond the end are the last one, with a warning.

        Raises:
            ValueError: If the video has no frames, or these differ in size.
            av.FFmpegError, RuntimeError: If a frame cannot be decoded (PyAV, TorchCodec).
        """
        wanted = np.ravel(indices)
        last = len(self) - 1 if wanted.any() else 0  # the first frame alone needs no index
        real = np.clip(wanted, 0, last)
        if self._shown is not None:
            real = self._shown[real]
        real, first, places = np.unique(real, return_index=True, return_inverse=True)
        images = self._decode(real)
        if len(shapes := {image.shape[:2] for image in images}) > 1:
            raise ValueError(f"its frames must have one size, got {sorted(shapes)}")
        if wanted.any() and (beyond := (wanted >= len(self)).sum()):
            part = f"{beyond} of {len(wanted)} sampled frames lie beyond its {len(self)} frames"
            warnings.warn(f"{self.path}: {part}; replaced by the last one", stacklevel=2)
        # Transforms such as Flip work in place: no two images may be the same array.
        return Frames(
            images[p] if i == first[p] else images[p].copy() for i, p in enumerate(places)
        )


def upright(converter: VideoReformatter, frame: VideoFrame) -> np.ndarray:
    """Convert a frame to RGB pixels (H, W, 3), uint8; a rotation tag is applied."""
    image = converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


class _PyAVReader(VideoReader):
    """Numbers frames by the time stamps of the packets, which are read once without decoding.

    Decoding starts at the last key frame before a wanted frame, or at the beginning if the times
    of display do not number the frames; but frames of the last call are kept, and those after it
    go on from it, so that windows that move over a video decode each frame once. Frames to which no
    other refers are decoded only if they are wanted, for codecs whose decoders know them.
    """

    # Not HEVC, in which other temporal layers may refer to such frames.
    _SKIPPING = ("h264", "mpeg4", "mpeg2video")
    # Of the last call, for one that goes on from there: index, decoder, number of its last frame,
    # and the frames that were wanted.
    _state: tuple = (None, None, -1, {})

    def _open(self) -> None:
        self._converter = VideoReformatter()
        self._restart()

    @cached_property
    def _index(self) -> Index:
        return index_of(self.path)

    def _decode(self, indices: Sequence[int]) -> list[np.ndarray]:
        index = self._index if indices[-1] else Index(1)
        (known, frames, place, seen), self._state = self._state, type(self)._state
        if known is not index:
            frames, place, seen = None, -1, {}
        self._wanted, self._until = set(indices), indices[-1]
        found = {wanted: seen[wanted] for wanted in indices if wanted in seen}
        for wanted in indices:
            if wanted in found:
                continue
            key = int(index.keys[max(np.searchsorted(index.keys, wanted, "right") - 1, 0)])
            if frames is None or key > place + 1 or wanted <= place:
                # Files are closed when the reader is deleted, so its decoder must not refer to it.
                frames, place = type(self)._from(proxy(self), key, index), key - 1
            while place < wanted:
                number, frame = next(frames, (None, None))
                if index.times is not None and (number is None or number > wanted):
                    # Time stamps do not number the frames: count these.
                    self._index = Index(index.length, index.fps)
                    return self._decode(indices)
                if number is None and place < 0:
                    raise ValueError("there is no frame in it")
                if number is None:
                    self._index = index._replace(length=place + 1)
                    return self._decode(np.minimum(indices, place))
                place = number
            found[wanted] = frame
        self._state = index, frames, place, found
        return [upright(self._converter, found[wanted]) for wanted in indices]

    def _restart(self) -> None:
        """Open the file; not all formats can seek to the beginning."""
        self._close()
        self._container = open_container(self.path, self.max_pixels)
        self._stream = video_stream(self._container)
        self._stream.codec_context.thread_count = self.num_threads

    def _close(self) -> None:
        # Streams refer to their container: without this, files stay open until the next collection.
        if hasattr(self, "_container"):
            self._container.close()

    __del__ = _close

    def _from(self, key: int, index: Index) -> Iterator[tuple[int, VideoFrame]]:
        if index.times is None:
            self._restart()
            yield from enumerate(self._container.decode(self._stream))
            return
        codec = self._stream.codec_context
        self._container.seek(int(index.times[key]), stream=self._stream)
        for packet in self._container.demux(self._stream):
            if index.in_order and packet.pts != packet.dts:
                return  # there are B-frames after all, so the times do not number the frames
            # Packets are read before they are due; a later call may want those after the last.
            number = -1 if packet.pts is None else index.times.searchsorted(packet.pts)
            skip = number < self._until and number not in self._wanted
            skip = skip and codec.name in self._SKIPPING
            codec.skip_frame = "NONREF" if skip else "DEFAULT"
            for frame in packet.decode():
                number = index.times.searchsorted(frame.pts or 0)
                if number < index.length and index.times[number] == frame.pts:
                    yield int(number), frame


class _TorchCodecReader(VideoReader):
    """Numbers frames by time stamps, which it reads first."""

    def _open(self) -> None:
        try:
            import torchcodec
        except ImportError:
            torchcodec = None
        if torchcodec is None or torchcodec.ffmpeg_major_version is None:
            need = "torchcodec and FFmpeg 4 to 9 (such as: apt install ffmpeg)"
            raise ImportError(f"to decode videos with TorchCodec install {need}")
        with open_container(self.path) as container:
            stream_index = video_stream(container).index
        options = dict(dimension_order="NHWC", num_ffmpeg_threads=self.num_threads)
        options |= dict(stream_index=stream_index)
        self._decoder = torchcodec.decoders.VideoDecoder(self.path, **options)
        self._index = Index(len(self._decoder), self._decoder.metadata.average_fps or 0.0)

    def _decode(self, indices: Sequence[int]) -> list[np.ndarray]:
        return list(self._decoder.get_frames_at(indices.tolist()).data.numpy())


READERS: dict[str, type[VideoReader]] = {"pyav": _PyAVReader, "torchcodec": _TorchCodecReader}
# Of ``VideoInit``, the default first. MMAction2's own transforms read with decord.
BACKENDS = (*READERS, "decord")
# With which MP4 and QuickTime files begin, after the size of the box.
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


def open_video(path: str, backend: str = "pyav", **options: int | None) -> VideoReader:
    """Open a video.

    Args:
        path: The file.
        backend: Backend in ``READERS``. Files other than MP4, QuickTime, Matroska and WebM are
            always read by PyAV, since TorchCodec returns wrong frames of them.
        **options: ``num_threads`` and ``max_pixels`` of ``VideoInit``.

    Raises:
        OSError: If the file cannot be opened.
        ValueError: If it has another format, no video that can be decoded, or larger frames.
        av.FFmpegError, RuntimeError: If it is damaged (PyAV, TorchCodec).
        ImportError: If the backend is not installed.
    """
    with open(path, "rb") as file:
        start = file.read(8)
    named = start[4:] in _BOXES or start[:4] == b"\x1aE\xdf\xa3"
    return READERS[backend if named else "pyav"](path, **options)
