"""The reader that decodes by TorchCodec, on a GPU too."""

from functools import cached_property
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from mmvidformer.video.containers import open_container, video_stream
from mmvidformer.video.index import Index, index_of
from mmvidformer.video.reader import Reader, name_of
from mmvidformer.video.times import FrameTimes

if TYPE_CHECKING:
    from torch import Tensor


class TorchCodecReader(Reader):
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
        self.source, self.name = source, name_of(source)
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
