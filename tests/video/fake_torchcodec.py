"""A stand-in for TorchCodec where it or FFmpeg is missing: PyAV decodes."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from mmvidformer.video.video import Video


class VideoDecoder:
    """The part of TorchCodec's class that the package uses."""

    def __init__(self, source, *, stream_index, dimension_order, num_ffmpeg_threads):
        assert dimension_order == "NHWC"
        self._video = Video.open(source if isinstance(source, str) else source.read())
        height, width = self._video.size
        rate = self._video.get_avg_fps()
        self.metadata = SimpleNamespace(average_fps=rate, height=height, width=width)

    def __len__(self):
        return self._video.reader.index.length

    def get_frames_at(self, indices):
        if max(indices) >= len(self):
            raise IndexError(f"frame {max(indices)} of {len(self)}")
        return SimpleNamespace(data=torch.from_numpy(np.stack(self._video.frames(indices))))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it in place of the package for a test, also if that is installed."""
    package = ModuleType("torchcodec")
    package.ffmpeg_major_version = 7
    package.decoders = SimpleNamespace(VideoDecoder=VideoDecoder)
    monkeypatch.setitem(sys.modules, "torchcodec", package)
