"""The running mean of frames: a baseline for HORST without order (reports/generated_videos.md).

In a config, ``model.neck.type=benchmarks.running_mean.RunningMean``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mmvidformer.models.horst.convolutions import FeedForward
from mmvidformer.models.horst.layer import HorstOutput, Recurrent, zero_padding


class RunningMean(Recurrent):
    """Encode each frame and return the mean of the frames so far.

    Takes the place of ``Horst`` in a recognizer. Each layer is a max pooling and the encoder of a
    ``HorstLayer``. The encoded frame takes the place of e, and the mean that of STATT.

    Args:
        in_channels: Number of channels of the input maps.
        channels: Number of channels C of each layer.
        strides: Stride of each layer. Default: 1.
    """

    def __init__(
        self, in_channels: int, channels: Sequence[int], strides: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        sizes = [in_channels, *channels], strides or [1] * len(channels)
        self.layers = nn.Sequential()
        for before, width, stride in zip(sizes[0][:-1], channels, sizes[1], strict=True):
            self.layers.append(nn.MaxPool2d(stride) if stride > 1 else nn.Identity())
            self.layers.append(FeedForward(before, width, nn.SiLU))
        self.out_channels = channels[-1]

    def forward(
        self,
        clip: Tensor,
        lengths: Tensor | None = None,
        state: tuple[Tensor, int] | None = None,
        outputs: list[Tensor] | None = None,
    ) -> tuple[HorstOutput, tuple[Tensor, int]]:
        """Process a clip; see ``Horst``. The state is the sum and number of the maps so far."""
        e = self.layers(clip.flatten(0, 1)).unflatten(0, clip.shape[:2])
        before, count = state or (torch.zeros_like(e[:, 0]), 0)
        sums = before[:, None] + e.cumsum(1)
        counts = torch.arange(count + 1, count + 1 + e.shape[1], device=e.device)
        y = sums / counts[:, None, None, None]
        if outputs is not None:
            outputs.append(y)
        return zero_padding(HorstOutput(y, e, y), lengths), (sums[:, -1], count + e.shape[1])
