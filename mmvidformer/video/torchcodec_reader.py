"""The reader that decodes by TorchCodec, on a GPU too."""

from contextlib import nullcontext
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from av import VideoStream

from mmvidformer.errors import MissingPackage
from mmvidformer.video.containers import open_container, video_stream
from mmvidformer.video.errors import BadVideo, blame, name_of
from mmvidformer.video.frame_list import is_interlaced
from mmvidformer.video.index import Index
from mmvidformer.video.mp4 import read_display_matrix
from mmvidformer.video.orientation import Orientation, read_matrix
from mmvidformer.video.reader import Reader

if TYPE_CHECKING:
    from torch import Tensor
    from torchcodec.decoders import VideoDecoder

FORMATS = ("mov", "matroska")  # of others it returns wrong frames
# Their decoders wait for a key frame. Others begin with noise where a container states a wrong one.
CODECS = ("h264", "hevc", "vp8", "vp9", "av1", "libdav1d", "libvpx", "libvpx-vp9")


class TorchCodecReader(Reader):
    """Decodes files of which TorchCodec returns the frames that PyAV returns.

    Args:
        source: The file.
        index: Its frames.
        decoder: TorchCodec's decoder of it.
        orientation: How TorchCodec turns them upright.
    """

    def __init__(
        self,
        source: str | BinaryIO,
        index: Index,
        decoder: "VideoDecoder",
        orientation: Orientation,
    ) -> None:
        self.source, self.name, self.index = source, name_of(source), index
        self._decoder, self._orientation = decoder, orientation
        self._lock = RLock()

    @classmethod
    def try_open(
        cls,
        source: str | BinaryIO,
        index: Index,
        num_threads: int = 1,
        max_pixels: int | None = None,
        device: str = "cpu",
    ) -> "TorchCodecReader | None":
        """Open a file, or return None if TorchCodec may return wrong frames of it, or none.

        The arguments are those of ``Video.open``.

        Raises:
            BadVideo: If the file cannot be read, or a device cannot decode it.
        """
        torchcodec = import_torchcodec()
        with open_container(source, max_pixels) as container:
            stream = video_stream(container)
            is_right = container.format.name.startswith(FORMATS) and _is_decoded_right(stream)
            orientation = _orientation_of_file(source, stream)
            options = dict(stream_index=stream.index, num_ffmpeg_threads=num_threads)
        # Without the table of key frames, an MP4 file states that all frames are key frames.
        has_keys = index.length == 1 or len(index.keys) < index.length
        if index.stamps is None or not has_keys or not is_right or orientation.mirrored:
            return None
        if not isinstance(source, str):
            source.seek(0)
        options |= dict(dimension_order="NHWC", device=device)
        try:
            with blame(name_of(source), "TorchCodec"):
                decoder = torchcodec.decoders.VideoDecoder(source, **options)
        except BadVideo:
            if device == "cpu":  # it may have an older FFmpeg, or the name is not UTF-8
                return None
            raise
        if len(decoder) != index.length:
            return None
        return cls(source, index, decoder, orientation)

    @property
    def stored_size(self) -> tuple[int, int]:
        """Height and width before frames are turned upright."""
        size = self._decoder.metadata.height, self._decoder.metadata.width
        return size[::-1] if self._orientation.turns % 2 else size

    @property
    def orientation(self) -> Orientation:
        """How frames are turned upright."""
        return self._orientation

    def decode(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Decode frames."""
        return list(self.decode_tensor(numbers).cpu().numpy())

    def decode_tensor(self, numbers: np.ndarray) -> "Tensor":
        """Decode frames on the device."""
        with self._lock, blame(self.name, "TorchCodec"):
            return self._decoder.get_frames_at(numbers.tolist()).data


def _is_decoded_right(stream: VideoStream) -> bool:
    codec = stream.codec_context
    # Before build 151, x264 wrote 4:4:4 that is decoded right only after the first packet.
    is_444 = codec.name == "h264" and "444" in (codec.pix_fmt or "")
    # FFmpeg's releases convert the colors of fields differently.
    return codec.name in CODECS and not is_444 and not is_interlaced(stream, False)


def _orientation_of_file(source: str | BinaryIO, stream: VideoStream) -> Orientation:
    """Return how the header of an MP4 file says that frames are upright; others say nothing."""
    if not stream.container.format.name.startswith("mov"):
        return Orientation()
    with open(source, "rb") if isinstance(source, str) else nullcontext(source) as file:
        matrix = read_display_matrix(file, stream.id)
    return Orientation() if matrix is None else read_matrix(matrix)


def import_torchcodec() -> ModuleType:
    """Return the package torchcodec; raises an ``ImportError`` if it or FFmpeg is missing."""
    try:
        import torchcodec
    except ImportError:
        torchcodec = None
    if torchcodec is None or torchcodec.ffmpeg_major_version is None:
        need = "torchcodec and FFmpeg 4 to 9 (such as: apt install ffmpeg)"
        raise MissingPackage(f"to decode videos with TorchCodec install {need}")
    return torchcodec
