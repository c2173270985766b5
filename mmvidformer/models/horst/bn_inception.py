"""BN-Inception (Ioffe and Szegedy 2015) as in the public Caffe and PyTorch weights."""

import logging
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from mmvidformer.models.horst.backbones import FrameBackbone

# Channels of each block's branches: 1x1; 3x3 (reduction, output); double 3x3 (reduction, two
# outputs); pooling and its projection. Blocks without a projection have a stride of 2.
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
    """Convolution with bias, batch norm and ReLU, padded to keep the size at stride 1."""

    def __init__(self, in_channels: int, channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride, padding=kernel // 2)
        self.bn = nn.BatchNorm2d(channels)
        self.act = nn.ReLU()


class InceptionBlock(nn.Module):
    """Branches on the same input, whose outputs are concatenated.

    Args:
        in_channels: Number of input channels.
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
        kinds: dict[str, Callable[..., nn.Module]] = {"mean": nn.AvgPool2d, "max": nn.MaxPool2d}
        # Means include the zeros of the padding. A pooling of stride 2 is not padded and rounds up.
        layers = [kinds[pool](3, stride, padding=stride % 2, ceil_mode=stride == 2)]
        if projection:
            layers.append(ConvNorm(in_channels, projection, 1))
        branches["pool"] = nn.Sequential(*layers)
        self.branches = nn.ModuleDict(branches)
        self.out_channels = single + out + out2 + (projection or in_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, h, w) to (N, C', h, w), or to half of h and w with a stride of 2.

        Raises:
            ValueError: If the stride is 2 and a side is odd, as convolution and pooling would round
                differently.
        """
        if self.stride == 2 and (x.shape[-2] % 2 or x.shape[-1] % 2):
            raise ValueError(
                f"BN-Inception cannot halve maps of {x.shape[-2]} x {x.shape[-1]}; images must "
                "have a size that gives even maps, such as 224 x 224 or 256 x 454 (454, not 456)"
            )
        return torch.cat([branch(x) for branch in self.branches.values()], dim=1)


class BNInception(FrameBackbone):
    """BN-Inception up to the feature map before the global pooling, with 1024 channels.

    The backbone of HORST and RULSTM on EPIC-Kitchens. Frames of exactly 256 x 454 (height x width)
    become 8 x 14 places. Pixels are BGR from 0 to 255 minus the means 104, 117 and 128.

    Args:
        frozen: Whether to freeze the network.
        init_from: Checkpoint that ``init_weights`` loads: RULSTM's TSN (``TSN-rgb.pth.tar``), or
            the ImageNet model with the same names.
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
            block = InceptionBlock(width, row)
            self.blocks[name] = block
            width = block.out_channels
        self.freeze()

    def init_weights(self) -> None:
        """Load the checkpoint ``init_from``, if any; MMEngine calls it once before training."""
        if self.init_from is not None:
            from mmvidformer.convert.bn_inception import load_bn_inception

            self.load_state_dict(load_bn_inception(self.init_from))
        elif self.frozen:
            logging.getLogger("mmvidformer").warning("frozen BNInception is random; set init_from")

    def features(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, 1024, h, w).

        Raises:
            ValueError: If a map with an odd side would have to be halved.
        """
        x = self.stem(frames)
        for block in self.blocks.values():
            x = block(x)
        return x
