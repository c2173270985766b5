"""A stand-in for TorchCodec where it or FFmpeg is missing: PyAV decodes."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from mmvidformer.video.video import Video


class VideoDecoder:
    """The part of TorchCodec's class that the package uses.

    Attributes:
        devices: The device of each decoder of a test.
        broken: Devices that cannot decode.
    """

    devices: list[str] = []
    broken: set[str] = set()

    def __init__(self, source, *, stream_index, dimension_order, num_ffmpeg_threads, device):
        assert dimension_order == "NHWC"
        self.devices.append(device)
        self.device = device
        self._video = Video.open(source if isinstance(source, str) else source.read())
        height, width = self._video.size
        rate = self._video.get_avg_fps()
        self.metadata = SimpleNamespace(average_fps=rate, height=height, width=width)

    def __len__(self):
        return self._video.reader.index.length

    def get_frames_at(self, indices):
        if self.device in self.broken:
            raise RuntimeError("this codec is not supported")
        if max(indices) >= len(self):
            raise IndexError(f"frame {max(indices)} of {len(self)}")
        return SimpleNamespace(data=self._video.reader.decode_tensor(torch.tensor(indices).numpy()))


def install(monkeypatch: pytest.MonkeyPatch) -> type[VideoDecoder]:
    """Put it in place of the package for a test, also if that is installed."""
    package = ModuleType("torchcodec")
    package.ffmpeg_major_version = 7
    package.decoders = SimpleNamespace(VideoDecoder=VideoDecoder)
    monkeypatch.setitem(sys.modules, "torchcodec", package)
    monkeypatch.setattr(VideoDecoder, "devices", [])
    monkeypatch.setattr(VideoDecoder, "broken", set())
    return VideoDecoder
