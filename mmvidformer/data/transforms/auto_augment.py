import math
import random
from collections.abc import Callable
from functools import partial
from itertools import chain

import torch
from timm.data.auto_augment import auto_augment_policy, rand_augment_transform
from torch import Tensor
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.lookup import look_up


def solarize(image: Tensor, threshold: int) -> Tensor:
    """Invert the pixels of an image (..., H, W), uint8, from a level of at most 256 on."""
    return torch.where(image.short() < threshold, image, 255 - image)


def solarize_add(image: Tensor, add: int) -> Tensor:
    """Brighten the dark half of the pixels of an image (..., H, W), uint8."""
    return torch.where(image < 128, (image.short() + add).clamp(0, 255).byte(), image)


# Affine maps with gray outside. Rotation and translation are about the center, shear the top left.
_options = dict(interpolation=InterpolationMode.BILINEAR, fill=128.0)
_affine = partial(
    F.affine, angle=0.0, translate=[0.0, 0.0], scale=1.0, shear=[0.0, 0.0], **_options
)
_shear = partial(_affine, center=[0.0, 0.0])

# Operations on frames x (T, 3, H, W), uint8, with timm's strengths v, by their names in timm; each
# frame has its own statistics.
TIMM_OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "auto_contrast": F.autocontrast,
    "brightness": F.adjust_brightness,
    "color": F.adjust_saturation,
    "contrast": F.adjust_contrast,
    "equalize": F.equalize,
    "invert": F.invert,
    "posterize": lambda x, v: F.posterize(x, min(v, 8)),
    "rotate": lambda x, v: F.rotate(x, v, **_options),
    "sharpness": F.adjust_sharpness,
    "shear_x": lambda x, v: _shear(x, shear=[math.degrees(math.atan(v)), 0.0]),
    "shear_y": lambda x, v: _shear(x, shear=[0.0, math.degrees(math.atan(v))]),
    "solarize": solarize,
    "solarize_add": solarize_add,
    "translate_x_rel": lambda x, v: _affine(x, translate=[-v * x.shape[-1], 0.0]),
    "translate_y_rel": lambda x, v: _affine(x, translate=[0.0, -v * x.shape[-2]]),
}


@TRANSFORMS.add
class ClipAutoAugment(v2.Transform):
    """Apply an AutoAugment policy or RandAugment, drawn once per clip.

    AutoAugment (Cubuk et al. 2019) and RandAugment (Cubuk et al. 2020) with timm's policies,
    strengths and draws. The operations are torchvision's. From the same draws, they equal timm's on
    Pillow images to within one of 255 levels, except that rotation, shear and translation, which
    fill with gray (128), interpolate linearly.

    Args:
        policy: A policy of timm: ``'v0'`` (EfficientNet's, and the official one of feature
            fixation), ``'original'`` (of the paper), one of these with ``r`` appended, which
            posterizes otherwise, or a string such as ``'rand-m9-mstd0.5-inc1'`` (DeiT's).

    Raises:
        KeyError: If the policy has other operations.
    """

    def __init__(self, policy: str = "v0") -> None:
        super().__init__()
        self.policy, self.layers = policy, 1
        if policy.startswith("rand"):
            drawn = rand_augment_transform(policy, {})
            self._rows, self.layers = [[operation] for operation in drawn.ops], drawn.num_layers
        else:
            self._rows = auto_augment_policy(policy)
        for operation in chain.from_iterable(self._rows):
            name = operation.aug_fn.__name__
            operation.aug_fn = look_up(TIMM_OPERATIONS, name, "operation of AutoAugment")
            operation.kwargs = {}  # those are for Pillow

    def transform(self, frames: Tensor, params: dict) -> Tensor:
        """Change frames (T, 3, H, W), uint8."""
        for _ in range(self.layers):
            for operation in random.choice(self._rows):
                frames = operation(frames)
        return frames


def _cutout(image: Tensor, level: float, frames: int) -> Tensor:
    """Cut a black box of up to 80 x 80 pixels at level 10, the same in each frame."""
    height, width = image.shape[1] // frames, image.shape[2]
    half = int(level / 10 * 40)
    y, x = int(torch.randint(height, ())), int(torch.randint(width, ()))
    clip = image.unflatten(1, (frames, height)).clone()
    clip[:, :, max(y - half, 0) : y + half, max(x - half, 0) : x + half] = 0
    return clip.flatten(1, 2)


def _contrast(image: Tensor, level: float, frames: int) -> Tensor:
    """Stretch levels away from white: scenic takes the number of pixels / 256 for the mean gray."""
    gray = min(image[0].numel() // 256, 255)
    stretched = gray + (level / 10 * 1.8 + 0.1) * (image.float() - gray)
    return stretched.clamp(0, 255).byte()


# Operations on a clip as one tall image x (3, T*H, W), uint8, at a level v of 0 to 10 or more.
SCENIC_OPERATIONS: dict[str, Callable[[Tensor, float, int], Tensor]] = {
    "Identity": lambda x, v, frames: x,
    "AutoContrast": lambda x, v, frames: F.autocontrast(x),
    "Equalize": lambda x, v, frames: F.equalize(x),
    "Invert": lambda x, v, frames: F.invert(x),
    "Posterize": lambda x, v, frames: F.posterize(x, min(int(v / 10 * 4), 8)),
    "Solarize": lambda x, v, frames: solarize(x, int(v / 10 * 256) % 256),  # as a byte
    "SolarizeAdd": lambda x, v, frames: solarize_add(x, int(v / 10 * 110)),
    "Color": lambda x, v, frames: F.adjust_saturation(x, v / 10 * 1.8 + 0.1),
    "Contrast": _contrast,
    "Brightness": lambda x, v, frames: F.adjust_brightness(x, v / 10 * 1.8 + 0.1),
    "Sharpness": lambda x, v, frames: F.adjust_sharpness(x, v / 10 * 1.8 + 0.1),
    "Cutout": _cutout,
}


@TRANSFORMS.add
class ClipRandAugment(v2.Transform):
    """Apply RandAugment (Cubuk et al. 2020) as in scenic's ViViT, drawn once per clip.

    The operations (``SCENIC_OPERATIONS``) are equally likely. Frames are stacked to one tall image,
    so that equalization uses the statistics of the whole clip. They equal the official ones, of
    tf-models-official 2.5.0, to within three of 255 levels, with two of their oddities. Contrast is
    not about the mean gray, but about white. The recipes exceed AutoAugment's largest level of 10
    (15 and 20): posterizing fades out, but the threshold of solarization is taken modulo 256. It is
    128 at level 15, and 0, so that all pixels are inverted, at levels 10 and 20.

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
