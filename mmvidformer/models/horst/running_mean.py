"""What HORST is compared with: frames encoded on their own, and averaged."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mmvidformer.models.horst.layer import HorstOutput, silence
from mmvidformer.models.horst.parts import FeedForward
from mmvidformer.registry import MODELS

# Sum of the maps so far, and their number.
MeanState = tuple[Tensor, int]


@MODELS.register_module()
class RunningMean(nn.Module):
    """Encode each frame, and give the mean of the frames so far: a baseline without order.

    Stands where ``Horst`` does in a recogniser. Each layer is a max pooling and the encoder of a
    ``HorstLayer``. As e and STATT, which it has not, it gives the encoded frame and the mean.

    Args:
        in_channels: Channels of the input maps.
        channels: Channels C of each layer.
        strides: Stride of each layer; default: 1.
    """

    def __init__(
        self, in_channels: int, channels: Sequence[int], strides: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        strides = [1] * len(channels) if strides is None else strides
        self.out_channels = channels[-1]
        self.layers = nn.Sequential()
        for before, width, stride in zip(
            [in_channels, *channels[:-1]], channels, strides, strict=True
        ):
            self.layers.append(nn.MaxPool2d(stride) if stride > 1 else nn.Identity())
            self.layers.append(FeedForward(before, width, nn.SiLU))

    def forward(
        self, clip: Tensor, lengths: Tensor | None = None, state: MeanState | None = None
    ) -> tuple[HorstOutput, MeanState]:
        """Run over a clip.

        Args:
            clip: Maps (B, T, C_in, H, W).
            lengths: Steps of each clip (B,); default: all T. Outputs beyond are zero.
            state: Sum and number of the maps before; default: none.

        Returns:
            Outputs (B, T, C, h, w), and the new state.
        """
        e = self.layers(clip.flatten(0, 1)).unflatten(0, clip.shape[:2])
        before, count = state or (torch.zeros_like(e[:, 0]), 0)
        sums = before[:, None] + e.cumsum(1)
        counts = torch.arange(count + 1, count + 1 + e.shape[1], device=e.device)
        y = sums / counts[:, None, None, None]
        return silence(HorstOutput(y, e, y), lengths), (sums[:, -1], count + e.shape[1])

    def step(self, x: Tensor, state: MeanState | None = None) -> tuple[HorstOutput, MeanState]:
        """Take one frame, maps (B, C_in, H, W); outputs are (B, C, h, w)."""
        output, state = self(x[:, None], state=state)
        return HorstOutput(*(part[:, 0] for part in output)), state
