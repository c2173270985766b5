"""BN-Inception (Ioffe and Szegedy 2015) in the form of the public Caffe and PyTorch weights.

=====  ====  ===========  ================  ======================
block  1x1   3x3          double 3x3        pool, its projection
=====  ====  ===========  ================  ======================
3a     64    64, 64       64, 96, 96        mean, 32
3b     64    64, 96       64, 96, 96        mean, 64
3c     -     128, 160 /2  64, 96, 96 /2     max /2, not projected
4a     224   64, 96       96, 128, 128      mean, 128
4b     192   96, 128      96, 128, 128      mean, 128
4c     160   128, 160     128, 160, 160     mean, 128
4d     96    128, 192     160, 192, 192     mean, 128
4e     -     128, 192 /2  192, 256, 256 /2  max /2, not projected
5a     352   192, 320     160, 224, 224     mean, 128
5b     352   192, 320     192, 224, 224     max, 128
=====  ====  ===========  ================  ======================

"/2" is a stride of 2; it is that of the last layer of a branch.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from mmvidformer.convert.bn_inception import load_bn_inception
from mmvidformer.models.horst.frames import FrozenFrames
from mmvidformer.registry import MODELS

# Name: 1x1, 3x3 (reduction, output), double 3x3 (reduction, two outputs), pool, its projection.
BLOCKS = {
    "3a": (64, (64, 64), (64, 96, 96), "mean", 32),
    "3b": (64, (64, 96), (64, 96, 96), "mean", 64),
    "3c": (0, (128, 160), (64, 96, 96), "max", 0),
    "4a": (224, (64, 96), (96, 128, 128), "mean", 128),
    "4b": (192, (96, 128), (96, 128, 128), "mean", 128),
    "4c": (160, (128, 160), (128, 160, 160), "mean", 128),
    "4d": (96, (128, 192), (160, 192, 192), "mean", 128),
    "4e": (0, (128, 192), (192, 256, 256), "max", 0),
    "5a": (352, (192, 320), (160, 224, 224), "mean", 128),
    "5b": (352, (192, 320), (192, 224, 224), "max", 128),
}


class ConvNorm(nn.Sequential):
    """Convolution with bias, batch norm and ReLU; padded to keep the size at stride 1."""

    def __init__(self, in_channels: int, channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride, padding=kernel // 2)
        self.bn = nn.BatchNorm2d(channels)
        self.act = nn.ReLU()


class InceptionBlock(nn.Module):
    """Branches on the same input, their outputs one behind the other.

    Args:
        in_channels: Channels of the input.
        row: A row of ``BLOCKS``.
    """

    def __init__(self, in_channels: int, row: tuple) -> None:
        super().__init__()
        single, (reduce, out), (reduce2, mid, out2), pool, projection = row
        stride = self.stride = 1 if projection else 2
        branches: dict[str, nn.Module] = {}
        if single:
            branches["1x1"] = ConvNorm(in_channels, single, 1)
        branches["3x3"] = nn.Sequential(
            ConvNorm(in_channels, reduce, 1), ConvNorm(reduce, out, 3, stride)
        )
        branches["double_3x3"] = nn.Sequential(
            ConvNorm(in_channels, reduce2, 1),
            ConvNorm(reduce2, mid, 3),
            ConvNorm(mid, out2, 3, stride),
        )
        kinds = {"mean": nn.AvgPool2d, "max": nn.MaxPool2d}
        # Zeros at the border count in the mean. The pool of stride 2 is not padded, and rounds up.
        pooling = kinds[pool](3, stride, padding=stride % 2, ceil_mode=stride == 2)
        branches["pool"] = nn.Sequential(pooling)
        if projection:
            branches["pool"].append(ConvNorm(in_channels, projection, 1))
        self.branches = nn.ModuleDict(branches)
        self.out_channels = single + out + out2 + (projection or in_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, h, w) to (N, C', h, w), or half of h and w.

        Raises:
            ValueError: If the block halves and a side is odd: convolution and pooling then round
                differently.
        """
        if self.stride == 2 and (x.shape[-2] % 2 or x.shape[-1] % 2):
            raise ValueError(
                f"BN-Inception cannot halve maps of {x.shape[-2]} x {x.shape[-1]}: images must "
                "have a size that gives even maps, as 224 x 224 or 256 x 454 (454, not 456)"
            )
        return torch.cat([branch(x) for branch in self.branches.values()], dim=1)


@MODELS.register_module()
class BNInception(FrozenFrames):
    """BN-Inception up to the map before the global pooling, of 1024 channels.

    The backbone of HORST and RULSTM on EPIC-Kitchens: frames of exactly 256 x 454 (height x
    width), BGR, 0 to 255, mean 104, 117, 128, not divided, become 8 x 14 places.

    Args:
        frozen: Do not train it.
        init_from: File that ``init_weights`` loads: RULSTM's TSN checkpoint (``TSN-rgb.pth.tar``),
            or the ImageNet model of the same names.
    """

    out_channels = 1024

    def __init__(self, frozen: bool = True, init_from: str | Path | None = None) -> None:
        super().__init__(frozen)
        self.init_from = init_from
        self.stem = nn.Sequential(
            ConvNorm(3, 64, 7, stride=2),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            ConvNorm(64, 64, 1),
            ConvNorm(64, 192, 3),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        self.blocks = nn.ModuleDict()
        width = 192
        for name, row in BLOCKS.items():
            self.blocks[name] = InceptionBlock(width, row)
            width = self.blocks[name].out_channels
        self.freeze()

    def init_weights(self) -> None:
        """Load the file named by ``init_from``, if any; MMEngine calls it once."""
        if self.init_from is not None:
            self.load_state_dict(load_bn_inception(self.init_from))

    def features(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, 1024, h, w).

        Raises:
            ValueError: If a map on the way has odd sides where it is to be halved.
        """
        x = self.stem(frames)
        for block in self.blocks.values():
            x = block(x)
        return x
