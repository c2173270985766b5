"""RandAugment that treats all frames of a clip alike."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from torch import Tensor
from torchvision.transforms.v2 import functional as F

from mmvidformer.lookup import look_up
from mmvidformer.registry import TRANSFORMS

GREY = 128


def _enhance(level: float) -> float:
    return level / 10 * 1.8 + 0.1


def _solarize(image: Tensor, level: float) -> Tensor:
    return torch.where(image < int(level / 10 * 256), image, 255 - image)


def _solarize_add(image: Tensor, level: float) -> Tensor:
    brighter = (image.int() + int(level / 10 * 110)).clamp(0, 255).to(image.dtype)
    return torch.where(image < GREY, brighter, image)


def _cutout(image: Tensor, level: float, frames: int) -> Tensor:
    height, width = image.shape[1] // frames, image.shape[2]
    half = int(level / 10 * 40)
    y, x = np.random.randint(height), np.random.randint(width)
    clip = image.unflatten(1, (frames, height)).clone()
    clip[:, :, max(y - half, 0) : y + half, max(x - half, 0) : x + half] = 0
    return clip.flatten(1, 2)


# Operations on a clip as one tall image (3, T*H, W), uint8, at level 0 to 10 or beyond.
OPERATIONS: dict[str, Callable[[Tensor, float, int], Tensor]] = {
    "Identity": lambda image, level, frames: image,
    "AutoContrast": lambda image, level, frames: F.autocontrast(image),
    "Equalize": lambda image, level, frames: F.equalize(image),
    "Invert": lambda image, level, frames: F.invert(image),
    "Posterize": lambda image, level, frames: F.posterize(image, min(int(level / 10 * 4), 8)),
    "Solarize": lambda image, level, frames: _solarize(image, level),
    "SolarizeAdd": lambda image, level, frames: _solarize_add(image, level),
    "Color": lambda image, level, frames: F.adjust_saturation(image, _enhance(level)),
    "Contrast": lambda image, level, frames: F.adjust_contrast(image, _enhance(level)),
    "Brightness": lambda image, level, frames: F.adjust_brightness(image, _enhance(level)),
    "Sharpness": lambda image, level, frames: F.adjust_sharpness(image, _enhance(level)),
    "Cutout": _cutout,
}


@TRANSFORMS.register_module()
class VideoRandAugment(BaseTransform):
    """Apply some random operations of one strength to all frames of a clip alike.

    RandAugment (Cubuk et al. 2020) as scenic's ViViT has it: no operation that moves pixels,
    and the frames are stacked to one tall image, so that equalisation and contrast use the
    statistics of the whole clip. The strengths are those of AutoAugment's official code, whose
    scale ends at 10; the recipes go beyond (15 and 20), where posterising and solarising fade
    out. Scenic cuts out a black box of up to 2 x 40 pixels a side at level 10, the same in each
    frame. Its contrast pulls towards white, not towards the mean grey, by a slip in counting
    (pixels / 256 for the mean); here it is the usual one.

    Required keys: ``imgs``, a list of (H, W, 3) uint8 RGB frames of equal size. Changed: ``imgs``.

    Args:
        num_layers: Operations in a row.
        magnitude: Their common strength.
        operations: Names that are drawn from with equal chances; default: all of
            ``OPERATIONS``.

    Raises:
        KeyError: If an operation is unknown.
        ValueError: If ``num_layers`` or ``magnitude`` is negative.
    """

    def __init__(
        self, num_layers: int = 2, magnitude: float = 9, operations: Sequence[str] | None = None
    ) -> None:
        if num_layers < 0 or magnitude < 0:
            raise ValueError(
                f"num_layers and magnitude must not be negative, got {num_layers}, {magnitude}"
            )
        self.num_layers = num_layers
        self.magnitude = magnitude
        self.operations = list(OPERATIONS) if operations is None else list(operations)
        for name in self.operations:
            look_up(OPERATIONS, name, "operation")

    def transform(self, results: dict) -> dict:
        """Change the frames of ``results['imgs']``."""
        clip = np.stack(results["imgs"])  # (T, H, W, 3)
        frames, height = clip.shape[:2]
        image = torch.from_numpy(clip).permute(3, 0, 1, 2).flatten(1, 2)  # (3, T*H, W)
        for name in np.random.choice(self.operations, self.num_layers):
            image = OPERATIONS[name](image, self.magnitude, frames)
        results["imgs"] = list(image.unflatten(1, (frames, height)).permute(1, 2, 3, 0).numpy())
        return results

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_layers={self.num_layers}, magnitude={self.magnitude}, "
            f"operations={self.operations})"
        )
