"""BN-Inception (Ioffe and Szegedy 2015) as in the public Caffe and PyTorch weights."""

import logging
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.models.horst.backbones import FrameBackbone

# Channels of each block: 1x1; 3x3 (reduction, output); double 3x3 (reduction, two outputs);
# projection of the pooling. Blocks without the first and the last have a stride of 2.
BLOCKS = {
    "3a": (64, 64, 64, 64, 96, 96, 32),
    "3b": (64, 64, 96, 64, 96, 96, 64),
    "3c": (0, 128, 160, 64, 96, 96, 0),
    "4a": (224, 64, 96, 96, 128, 128, 128),
    "4b": (192, 96, 128, 96, 128, 128, 128),
    "4c": (160, 128, 160, 128, 160, 160, 128),
    "4d": (96, 128, 192, 160, 192, 192, 128),
    "4e": (0, 128, 192, 192, 256, 256, 0),
    "5a": (352, 192, 320, 160, 224, 224, 128),
    "5b": (352, 192, 320, 192, 224, 224, 128),
}


class BNInception(FrameBackbone):
    """BN-Inception up to the feature map before the global pooling, with 1024 channels.

    The backbone of HORST and RULSTM on EPIC-Kitchens. Frames of exactly 256 x 454 (height x width)
    become 8 x 14 places. Pixels are BGR from 0 to 255 minus the means 104, 117 and 128. The layers
    are named as in the public weights.

    Args:
        frozen: Whether to freeze the network.
        init_from: Checkpoint that ``init_weights`` loads: RULSTM's TSN (``TSN-rgb.pth.tar``), or
            the ImageNet model with the same names.
    """

    out_channels = 1024

    def __init__(self, frozen: bool = True, init_from: str | Path | None = None) -> None:
        super().__init__(frozen)
        self.init_from = init_from
        self._add("conv1_7x7_s2", 3, 64, 7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64, 1)
        self._add("conv2_3x3", 64, 192, 3)
        width = 192
        for block, (single, reduce, out, reduce2, mid, out2, projection) in BLOCKS.items():
            name, stride = f"inception_{block}", 1 if single else 2
            if single:
                self._add(f"{name}_1x1", width, single, 1)
                self._add(f"{name}_pool_proj", width, projection, 1)
            self._add(f"{name}_3x3_reduce", width, reduce, 1)
            self._add(f"{name}_3x3", reduce, out, 3, stride)
            self._add(f"{name}_double_3x3_reduce", width, reduce2, 1)
            self._add(f"{name}_double_3x3_1", reduce2, mid, 3)
            self._add(f"{name}_double_3x3_2", mid, out2, 3, stride)
            width = single + out + out2 + (projection or width)
        self.freeze()

    def _add(self, name: str, before: int, after: int, kernel: int, stride: int = 1) -> None:
        """Add a convolution, padded to keep the size at stride 1, and its batch norm."""
        self.add_module(name, nn.Conv2d(before, after, kernel, stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(after))

    def _run(self, x: Tensor, *names: str) -> Tensor:
        for name in names:
            x = self.get_submodule(f"{name}_bn")(self.get_submodule(name)(x)).relu()
        return x

    def init_weights(self) -> None:
        """Load the checkpoint ``init_from``, if any; MMEngine calls it once before training."""
        if self.init_from is not None:
            from mmvidformer.checkpoints import read_model

            state = read_model(self.init_from)[1].state
            self.load_state_dict({k.removeprefix("backbone."): x for k, x in state.items()})
        elif self.frozen:
            logging.getLogger("mmvidformer").warning("frozen BNInception is random; set init_from")

    def forward(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, 1024, h, w).

        Raises:
            UserError: If a map with an odd side would have to be halved, as convolution and
                pooling would round differently.
        """
        x = F.max_pool2d(self._run(frames, "conv1_7x7_s2"), 3, 2, ceil_mode=True)
        x = self._run(x, "conv2_3x3_reduce", "conv2_3x3")
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        for block, (single, *_) in BLOCKS.items():
            name, (height, width) = f"inception_{block}", x.shape[-2:]
            if single:  # means include the zeros of the padding
                pool = F.max_pool2d if block == "5b" else F.avg_pool2d
                branches = [self._run(x, f"{name}_1x1")]
                pooled = self._run(pool(x, 3, 1, padding=1), f"{name}_pool_proj")
            elif height % 2 or width % 2:
                raise UserError(
                    f"BN-Inception cannot halve maps of {height} x {width}; images must have a "
                    "size that gives even maps, such as 224 x 224 or 256 x 454 (454, not 456)"
                )
            else:
                branches, pooled = [], F.max_pool2d(x, 3, 2, ceil_mode=True)
            branches.append(self._run(x, f"{name}_3x3_reduce", f"{name}_3x3"))
            double = [f"{name}_double_3x3_{end}" for end in ("reduce", "1", "2")]
            x = torch.cat([*branches, self._run(x, *double), pooled], dim=1)
        return x
