"""Augmentation of clips, tensors on any device: for data preprocessors, not for workers."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from collections.abc import Mapping

import torch
from mmaction.datasets.transforms import MultiScaleCrop
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.errors import UserError


@TRANSFORMS.add
class ClipFlip(v2.RandomHorizontalFlip):
    """Flip frames horizontally, and swap classes that name a side.

    Args:
        p: Probability.
        label_map: New class of each class that changes in a mirror.

    Raises:
        UserError: If there is a ``label_map``, and a label is not one class (from ``forward``).
    """

    def __init__(self, p: float = 0.5, label_map: Mapping[int, int] | None = None) -> None:
        super().__init__(p)
        self.label_map = dict(label_map or {})

    def forward(self, frames: Tensor, label: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Flip frames (N, 3, H, W) with labels (tasks,)."""
        label_map = {} if label is None else self.label_map
        if label_map and label.shape != (1,):
            shape = tuple(label.shape)
            raise UserError(f"label_map needs labels of one class (1,), got the shape {shape}")
        if torch.rand(1) >= self.p:
            return frames, label
        swapped = label
        for old, new in label_map.items():
            swapped = torch.where(label == old, new, swapped)
        return frames.flip(-1), swapped


@TRANSFORMS.add
class ClipColorJitter(v2.ColorJitter):
    """Torchvision's ``v2.ColorJitter`` with a probability, after a shift of the brightness.

    Args:
        p: Probability.
        shift: Largest number of levels that is added to all values, or subtracted, before the
            other changes (TensorFlow's ``random_brightness``; 32 in ViViT's official code).
        **kwargs: Arguments of ``v2.ColorJitter``.
    """

    def __init__(
        self, p: float = 1.0, shift: float = 0.0, **kwargs: float | tuple[float, float]
    ) -> None:
        super().__init__(**kwargs)
        self.p, self.shift = p, shift

    def transform(self, frames: Tensor, params: dict) -> Tensor:
        """Change frames (N, 3, H, W), uint8."""
        if torch.rand(1) >= self.p:
            return frames
        if self.shift:
            change = torch.empty(1).uniform_(-self.shift, self.shift).item()
            frames = (frames + change).round().clamp(0, 255).byte()
        return super().transform(frames, params)


@TRANSFORMS.add
class ClipErasing(v2.RandomErasing):
    """Torchvision's ``RandomErasing``, whose ``value='random'`` is noise for uint8 frames too.

    Values have ImageNet's mean and deviation over all channels, as in timm's mode ``'pixel'``.
    """

    def transform(self, frames: Tensor, params: dict) -> Tensor:
        """Erase the same region of frames (N, 3, H, W)."""
        if self.value is None and params["v"] is not None:
            params["v"] = (params["v"] * 57.5 + 115).clamp(0, 255)
        return super().transform(frames, params)


@TRANSFORMS.add
class ClipMultiScaleCrop(v2.Transform):
    """Crop frames by MMAction2's ``MultiScaleCrop``, and resize the crop.

    Args:
        size: Height and width after resizing.
        **kwargs: Arguments of ``MultiScaleCrop``.
    """

    def __init__(self, size: int, **kwargs: object) -> None:
        super().__init__()
        self.size = size
        self.crop = MultiScaleCrop(input_size=size, **kwargs)

    def transform(self, frames: Tensor, params: dict) -> Tensor:
        """Crop and resize frames (N, 3, H, W)."""
        left, top, right, bottom = self.crop({"img_shape": frames.shape[-2:]})["crop_bbox"].tolist()
        frames = frames[..., top:bottom, left:right]
        return F.resize(frames, [self.size, self.size], antialias=False)
