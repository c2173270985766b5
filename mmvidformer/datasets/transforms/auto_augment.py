"""AutoAugment and RandAugment with one draw per clip."""

import math
import random
from collections.abc import Callable, Sequence

import torch
from PIL.Image import Resampling
from timm.data.auto_augment import auto_augment_policy, rand_augment_transform
from torch import Tensor
from torch.nn.functional import embedding_bag
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from mmvidformer.lookup import look_up
from mmvidformer.registry import TRANSFORMS


def solarize(image: Tensor, threshold: int) -> Tensor:
    """Invert the pixels of an image (..., H, W), uint8, from a level of at most 256 on."""
    return torch.where(image.short() < threshold, image, 255 - image)


def solarize_add(image: Tensor, add: int) -> Tensor:
    """Brighten the dark half of the pixels of an image (..., H, W), uint8."""
    return torch.where(image < 128, (image.short() + add).clamp(0, 255).byte(), image)


def _gray(x: Tensor) -> Tensor:
    """Luma (T, 1, H, W), in Pillow's integers."""
    red, green, blue = x.int().split(1, dim=1)
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16


def _blend(base: Tensor, x: Tensor, factor: float) -> Tensor:
    """Interpolate or extrapolate from ``base`` to ``x``."""
    base = base.float()
    return (base + factor * (x - base)).clamp(0, 255).byte()


def _contrast(x: Tensor, factor: float) -> Tensor:
    mean = _gray(x).double().mean(dim=(1, 2, 3), keepdim=True)
    return _blend((mean + 0.5).floor(), x, factor)


def _rotation(height: int, width: int, degrees: float) -> tuple[float, ...]:
    x, y, angle = width / 2, height / 2, -math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    return cos, sin, x - x * cos - y * sin, -sin, cos, y + x * sin - y * cos


def _warp(x: Tensor, matrix: Sequence[float], cubic: bool) -> Tensor:
    """Sample frames (T, 3, H, W) at an affine map of the pixels, gray outside, as Pillow does."""
    height, width = x.shape[-2:]
    a, b, c, d, e, f = matrix
    rows, columns = (torch.arange(n, device=x.device) + 0.5 for n in (height, width))
    rows = rows[:, None]
    places = [d * columns + e * rows + f, a * columns + b * rows + c]  # y, x
    inside = torch.ones(height, width, dtype=torch.bool, device=x.device)
    taps, weights = [], []
    for place, size in zip(places, (height, width), strict=True):
        inside &= (place >= 0) & (place < size)
        start = (place - 0.5).floor()
        t = place - 0.5 - start
        # Cubic convolution with the parameter -1; resizing in Pillow has -0.5, PyTorch -0.75.
        steep = [-t * (1 - t) ** 2, 1 + t * t * (t - 2), t * (1 + t - t * t), t * t * (t - 1)]
        weights.append(steep if cubic else [1 - t, t])
        offsets = range(-1, 3) if cubic else range(2)
        taps.append([(start + n).clamp(0, size - 1).long() for n in offsets])
    index = torch.stack([y * width + z for y in taps[0] for z in taps[1]], dim=-1)
    weight = torch.stack([v * w for v in weights[0] for w in weights[1]], dim=-1)
    pixels = x.permute(2, 3, 0, 1).flatten(2).flatten(0, 1).float()  # (H*W, T*3)
    warped = embedding_bag(
        index.flatten(0, 1), pixels, mode="sum", per_sample_weights=weight.flatten(0, 1)
    )
    warped = warped.clamp(0, 255).byte().view(height, width, *x.shape[:2]).permute(2, 3, 0, 1)
    return torch.where(inside, warped, 128)


# Affine maps of output pixels to input pixels: their matrices for a height, a width and a strength.
MAPS: dict[str, Callable[[int, int, float], Sequence[float]]] = {
    "rotate": _rotation,
    "shear_x": lambda height, width, v: (1, v, 0, 0, 1, 0),
    "shear_y": lambda height, width, v: (1, 0, 0, v, 1, 0),
    "translate_x_rel": lambda height, width, v: (1, 0, v * width, 0, 1, 0),
    "translate_y_rel": lambda height, width, v: (1, 0, 0, 0, 1, v * height),
}

# Operations on frames x (T, 3, H, W), uint8, with a strength; each frame has its own statistics.
TIMM_OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "auto_contrast": F.autocontrast,
    "brightness": lambda x, v: _blend(torch.zeros_like(x), x, v),
    "color": lambda x, v: _blend(_gray(x), x, v),
    "contrast": _contrast,
    "equalize": F.equalize,
    "invert": F.invert,
    "posterize": lambda x, v: F.posterize(x, min(v, 8)),
    "sharpness": F.adjust_sharpness,
    "solarize": solarize,
    "solarize_add": solarize_add,
}


def _on_tensors(name: str) -> Callable[..., Tensor]:
    """Return timm's operation of this name for frames instead of a Pillow image."""

    def apply(frames: Tensor, *strength: float, resample: Sequence[int], **_: object) -> Tensor:
        if name not in MAPS:
            return TIMM_OPERATIONS[name](frames, *strength)
        cubic = random.choice(resample) == Resampling.BICUBIC
        return _warp(frames, MAPS[name](*frames.shape[-2:], *strength), cubic)

    look_up([*MAPS, *TIMM_OPERATIONS], name, "operation of AutoAugment")
    return apply


@TRANSFORMS.register_module()
class ClipAutoAugment(v2.Transform):
    """Apply an AutoAugment policy or RandAugment, drawn once per clip.

    AutoAugment (Cubuk et al. 2019) and RandAugment (Cubuk et al. 2020) with timm's policies,
    strengths and draws. ``'v0'`` is the policy of the official code of feature fixation on Kinetics
    and Something-Something. Rotation, shear and translation fill with gray (128) and interpolate
    cubically, or in AutoAugment linearly or cubically. From the same draws, each operation equals
    timm's on Pillow images to within one of 255 levels.

    Args:
        policy: A policy of timm: ``'v0'`` (of the EfficientNet code for TPUs), ``'original'`` (of
            the paper), one of these with ``r`` appended, which posterizes otherwise, or a string
            such as ``'rand-m9-mstd0.5-inc1'`` (DeiT's).

    Raises:
        KeyError: If the policy has other operations.
    """

    def __init__(self, policy: str = "v0") -> None:
        super().__init__()
        self.policy, self.layers = policy, 1
        if policy.startswith("rand"):
            drawn = rand_augment_transform(policy, {"interpolation": (Resampling.BICUBIC,)})
            self._rows, self.layers = [[operation] for operation in drawn.ops], drawn.num_layers
        else:
            self._rows = auto_augment_policy(policy)
        for operation in (operation for row in self._rows for operation in row):
            operation.aug_fn = _on_tensors(operation.aug_fn.__name__)

    def transform(self, frames: Tensor, params: dict) -> Tensor:
        """Change frames (T, 3, H, W), uint8."""
        for _ in range(self.layers):
            for operation in random.choice(self._rows):
                frames = operation(frames)
        return frames


def _cutout(image: Tensor, level: float, frames: int) -> Tensor:
    height, width = image.shape[1] // frames, image.shape[2]
    half = int(level / 10 * 40)
    y, x = int(torch.randint(height, ())), int(torch.randint(width, ()))
    clip = image.unflatten(1, (frames, height)).clone()
    clip[:, :, max(y - half, 0) : y + half, max(x - half, 0) : x + half] = 0
    return clip.flatten(1, 2)


# Operations on a clip as one tall image x (3, T*H, W), uint8, at a level v of 0 to 10 or more.
SCENIC_OPERATIONS: dict[str, Callable[[Tensor, float, int], Tensor]] = {
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

    RandAugment (Cubuk et al. 2020) as in scenic's ViViT. Its operations (``SCENIC_OPERATIONS``) are
    equally likely, and none is geometric. Frames are stacked to one tall image, so that
    equalization and contrast use the statistics of the whole clip. Levels are those of the
    official code of AutoAugment, whose scale ends at 10; the recipes exceed it (15 and 20), where
    posterizing and solarizing fade out.
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
        names = list(SCENIC_OPERATIONS)
        for index in torch.randint(len(names), (self.num_layers,)).tolist():
            image = SCENIC_OPERATIONS[names[index]](image, self.magnitude, count)
        return image.unflatten(1, (count, -1)).transpose(0, 1)
