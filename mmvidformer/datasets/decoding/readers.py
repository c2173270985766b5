"""Frames of a video file by index, through PyAV, TorchCodec or decord."""

import io
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import av
import mmcv
import numpy as np

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_file, first_line
from mmvidformer.lookup import look_up

# Frames that TorchCodec and decord decode at once.
CHUNK = 32


@dataclass(eq=False)
class VideoReader:
    """An open video, with the part of ``decord.VideoReader`` that MMAction2's transforms use.

    Frame i is the i-th in the order of display. Containers may count more frames than the stream
    has. When such a frame is met, ``len`` shrinks, and the last real frame is returned instead.
    Frames are upright: a rotation tag is applied. ``open_video`` opens one.
    """

    path: str
    source: str | io.BytesIO
    num_threads: int = 1
    short_side: int | None = None
    device: str = "cpu"

    # Subclasses have a name and ``_open``, and decode frames in ``_batch``.
    name: ClassVar[str]
    # Whether it crashed and hung on none of the files of stress.damaged_videos.
    safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            self._open()
        except ImportError:
            raise
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
        chunks = (indices[i : i + CHUNK] for i in range(0, len(indices), CHUNK))
        return [self._resized(image) for chunk in chunks for image in self._batch(chunk)]

    def _resized(self, image: np.ndarray) -> np.ndarray:
        if self.short_side is None:
            return image
        return mmcv.imrescale(image, (np.inf, self.short_side))  # as MMAction2's Resize

    def _bad(self, action: str, error: Exception) -> BadVideo:
        reason = getattr(error, "strerror", None) or first_line(error)  # PyAV's has no path
        return BadVideo(self.path, f"{self.name} cannot {action} it: {reason}")


class _PyAVReader(VideoReader):
    """Numbers frames by the time stamps of the packets, which are read once without decoding.

    Decoding starts at the last key frame before a wanted frame, or at the beginning if the times
    of display do not number the frames. Frames to which no other refers are decoded only if they
    are wanted, for codecs whose decoders know them.
    """

    name = "PyAV"
    # Not HEVC, in which other temporal layers may refer to such frames.
    _SKIPPING = ("h264", "mpeg4", "mpeg2video")

    def _open(self) -> None:
        self._converter = av.video.reformatter.VideoReformatter()
        self._restart()
        # Key frames at which decoding can start, and time stamps of all frames if they number them.
        self._keys, self._times = np.zeros(1, int), None
        packets = self._container.demux(self._stream)
        packets = [(p.pts, p.is_keyframe) for p in packets if p.size and not p.is_discard]
        self._length, self._fps = len(packets), float(self._stream.average_rate or 0)
        times = sorted({time for time, _ in packets if time is not None})
        if not self._fps and len(times) > 1:  # browsers record cameras without a rate
            self._fps = float((len(times) - 1) / (times[-1] - times[0]) / self._stream.time_base)
        self._numbers = {time: number for number, time in enumerate(times)}
        keys = [self._numbers[time] for time, is_key in packets if is_key and time is not None]
        # AVI states no times of display, and frames do not have those that FFmpeg makes up.
        if len(times) == len(packets) and keys and self._container.format.name != "avi":
            self._times, self._keys = times, np.sort(keys)

    def _decode(self, indices: Sequence[int]) -> list[np.ndarray]:
        images: list[np.ndarray] = []
        frames, place = self._from(0, indices), -1
        for wanted in indices:
            key = int(self._keys[max(np.searchsorted(self._keys, wanted, "right") - 1, 0)])
            if key > place + 1:
                frames, place = self._from(key, indices), key - 1
            while place < wanted:
                number, frame = next(frames, (None, None))
                if self._times is not None and (number is None or number > wanted):
                    # Time stamps do not number the frames: count these.
                    self._times, self._keys = None, np.zeros(1, int)
                    return self._decode(indices)
                if number is None and place < 0:
                    raise ValueError("there is no frame in it")
                if number is None:
                    self._length = place + 1
                    return self._decode(np.minimum(indices, place))
                place = number
            images.append(self._resized(self._image(frame)))
        return images

    def _restart(self) -> None:
        """Open the file; not all formats can seek to the beginning."""
        self._close()
        if not isinstance(self.source, str):
            self.source.seek(0)
        self._container = av.open(self.source)
        if not self._container.streams.video:
            raise ValueError("no video stream")
        self._stream = self._container.streams.video[0]
        self._stream.codec_context.thread_count = self.num_threads

    def _close(self) -> None:
        # Streams refer to their container: without this, files stay open until the next collection.
        if hasattr(self, "_container"):
            self._container.close()

    __del__ = _close

    def _from(self, key: int, wanted: Sequence[int]) -> Iterator[tuple[int, Any]]:
        if self._times is None:
            self._restart()
            yield from enumerate(self._container.decode(self._stream))
            return
        codec = self._stream.codec_context
        times = {self._times[i] for i in wanted if i < len(self._times)}
        self._container.seek(self._times[key], stream=self._stream)
        for packet in self._container.demux(self._stream):
            skip = packet.pts not in times and codec.name in self._SKIPPING
            codec.skip_frame = "NONREF" if skip else "DEFAULT"
            for frame in packet.decode():
                if frame.pts in self._numbers:
                    yield self._numbers[frame.pts], frame

    def _image(self, frame: Any) -> np.ndarray:
        image = self._converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
        return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


class _TorchCodecReader(VideoReader):
    """Numbers frames by time stamps, which it reads first.

    With ``device="cuda"`` NVDEC decodes, and frames are copied to the CPU.
    """

    name = "TorchCodec"

    def _open(self) -> None:
        try:
            import torchcodec
        except ImportError:
            torchcodec = None
        if torchcodec is None or torchcodec.ffmpeg_major_version is None:
            raise ImportError(
                "to decode videos with TorchCodec install torchcodec and FFmpeg 4 to 9 (such as: "
                "apt install ffmpeg)"
            )
        source = self.source if isinstance(self.source, str) else self.source.getvalue()
        threads, device = self.num_threads, self.device
        self._decoder = torchcodec.decoders.VideoDecoder(
            source, dimension_order="NHWC", num_ffmpeg_threads=threads, device=device
        )
        self._length, self._fps = len(self._decoder), self._decoder.metadata.average_fps or 0.0

    def _batch(self, indices: Sequence[int]) -> np.ndarray:
        return self._decoder.get_frames_at(list(map(int, indices))).data.cpu().numpy()


class _DecordReader(VideoReader):
    """It crashes on damaged files, and cannot read videos with a rotation tag."""

    name, safe = "decord", False

    def _open(self) -> None:
        import decord

        self._reader = decord.VideoReader(self.source, num_threads=self.num_threads)
        self._length, self._fps = len(self._reader), self._reader.get_avg_fps()

    def _batch(self, indices: Sequence[int]) -> np.ndarray:
        return self._reader.get_batch(indices).asnumpy()


# The default first.
READERS: dict[str, type[VideoReader]] = {
    "pyav": _PyAVReader,
    "torchcodec": _TorchCodecReader,
    "decord": _DecordReader,
}
BACKENDS = tuple(READERS)


def states_times(source: str | io.BytesIO) -> bool:
    """Return whether a file is MP4, QuickTime, Matroska or WebM, by its first bytes.

    They state when each frame is displayed. AVI does not, and MPEG streams have no index.
    """
    with open(source, "rb") if isinstance(source, str) else nullcontext(source) as file:
        file.seek(0)
        start = file.read(8)
        file.seek(0)
    boxes = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
    return start[4:] in boxes or start[:4] == b"\x1aE\xdf\xa3"


def open_video(
    path: str,
    backend: str = "pyav",
    num_threads: int = 1,
    content: bytes | None = None,
    short_side: int | None = None,
    device: str = "cpu",
) -> VideoReader:
    """Open a video.

    Args:
        path: The file.
        backend: Backend in ``READERS``. Files other than MP4, QuickTime, Matroska and WebM are
            always read by PyAV, since TorchCodec and decord return wrong frames of them.
        num_threads: Number of decoding threads.
        content: Content of a file that is not local.
        short_side: Short side to which frames are resized, each when it is decoded.
        device: Device that decodes; only ``'torchcodec'`` takes others than ``'cpu'``.

    Raises:
        BadVideo: If the file is missing or empty, or the backend does not open it.
        ImportError: If the backend is not installed.
        KeyError: If ``backend`` is unknown.
    """
    reader = look_up(READERS, backend, "video backend")
    fault = fault_of_file(path) if content is None else None
    if fault is not None:
        raise BadVideo(path, fault)
    source = path if content is None else io.BytesIO(content)
    if not states_times(source):
        reader = _PyAVReader
    return reader(path, source, num_threads, short_side, device)
