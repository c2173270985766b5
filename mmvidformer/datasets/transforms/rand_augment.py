"""RandAugment with one draw per clip."""

from collections.abc import Callable

import torch
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from mmvidformer.registry import TRANSFORMS


def solarize(image: Tensor, threshold: int) -> Tensor:
    """Invert the pixels of an image (..., H, W), uint8, from a level of at most 256 on."""
    return torch.where(image.short() < threshold, image, 255 - image)


def solarize_add(image: Tensor, add: int) -> Tensor:
    """Brighten the dark half of the pixels of an image (..., H, W), uint8."""
    return torch.where(image < 128, (image.short() + add).clamp(0, 255).byte(), image)


def _cutout(image: Tensor, level: float, frames: int) -> Tensor:
    height, width = image.shape[1] // frames, image.shape[2]
    half = int(level / 10 * 40)
    y, x = int(torch.randint(height, ())), int(torch.randint(width, ()))
    clip = image.unflatten(1, (frames, height)).clone()
    clip[:, :, max(y - half, 0) : y + half, max(x - half, 0) : x + half] = 0
    return clip.flatten(1, 2)


# Operations on a clip as one tall image x (3, T*H, W), uint8, at a level v of 0 to 10 or more.
OPERATIONS: dict[str, Callable[[Tensor, float, int], Tensor]] = {
    "Identity": lambda x, v, frames: x,
    "AutoContrast": lambda x, v, frames: F.autocontrast(x),
    "Equalize": lambda x, v, frames: F.equalize(x),
    "Invert": lambda x, v, frames: F.invert(x),
    "Posterize": lambda x, v, frames: F.posterize(x, min(int(v / 10 * 4), 8)),
    "Solarize": lambda x, v, frames: solarize(x, int(v / 10 * 256)),
    "SolarizeAdd": lambda x, v, frames: solarize_add(x, int(v / 10 * 110)),
    "Color": lambda x, v, frames: F.adjust_saturation(x, v / 10 * 1.8 + 0.1),
    "Contrast": lambda x, v, frames: F.adjust_contrast(x, v / 10 * 1.8 + 0.1),
    "Brightness": lambda x, v, frames: F.adjust_brightness(x, v / 10 * 1.8 + 0.1),
    "Sharpness": lambda x, v, frames: F.adjust_sharpness(x, v / 10 * 1.8 + 0.1),
    "Cutout": _cutout,
}


@TRANSFORMS.register_module()
class ClipRandAugment(v2.Transform):
    """Apply random operations of a given magnitude, drawn once per clip.

    RandAugment (Cubuk et al. 2020) as in scenic's ViViT. Its ``OPERATIONS`` are equally likely, and
    none is geometric. Frames are stacked to one tall image, so that equalization and contrast use
    the statistics of the whole clip. Levels are those of AutoAugment's official code, whose scale
    ends at 10; the recipes exceed it (15 and 20), where posterizing and solarizing fade out.
    ``Cutout`` cuts a black box of up to 80 x 80 pixels at level 10, the same in each frame.

    Scenic's contrast has a bug: it blends towards white instead of the mean gray (the number of
    pixels / 256 in place of the mean). Here contrast is the usual one.

    Args:
        num_layers: Number of operations in a row.
        magnitude: Level of all operations, at least 0.
    """

    def __init__(self, num_layers: int = 2, magnitude: float = 9) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.magnitude = magnitude

    def transform(self, frames: Tensor, params: dict) -> Tensor:
        """Change frames (T, 3, H, W), uint8."""
        count = len(frames)
        image = frames.transpose(0, 1).flatten(1, 2)  # (3, T*H, W)
        names = list(OPERATIONS)
        for index in torch.randint(len(names), (self.num_layers,)).tolist():
            image = OPERATIONS[names[index]](image, self.magnitude, count)
        return image.unflatten(1, (count, -1)).transpose(0, 1)
