from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.tokens import Size
from mmvidformer.lookup import look_up


def _linear(table: Tensor, size: Size) -> Tensor:
    return F.interpolate(table, size=size, mode="trilinear", align_corners=True)


def _bicubic(table: Tensor, size: Size) -> Tensor:
    frames = table[0].transpose(0, 1)  # (T, D, H, W)
    frames = F.interpolate(frames, size=size[1:], mode="bicubic", antialias=True)
    return _linear(frames.transpose(0, 1)[None], size)


def _bilinear(table: Tensor, size: Size) -> Tensor:
    t, h, w = size
    frames = table[0].transpose(0, 1)  # (T, D, H, W)
    frames = F.interpolate(frames, size=(h, w), mode="bilinear", antialias=True)
    over_time = frames.permute(1, 2, 3, 0).flatten(1, 2)[None]  # (1, D, H W, T)
    over_time = F.interpolate(over_time, size=(h * w, t), mode="bilinear", antialias=True)
    return over_time.unflatten(2, (h, w)).permute(0, 1, 4, 2, 3)


def _nearest_1d(table: Tensor, size: Size) -> Tensor:
    length = size[0] * size[1] * size[2]
    return F.interpolate(table.flatten(2), size=length, mode="nearest").unflatten(2, size)


RESIZE_RULES: dict[str, Callable[[Tensor, Size], Tensor]] = {
    "linear": _linear,
    "bicubic": _bicubic,
    "bilinear": _bilinear,
    "nearest": lambda table, size: F.interpolate(table, size=size, mode="nearest"),
    "nearest_1d": _nearest_1d,
}


def resize_positions(table: Tensor, size: Size, rule: str = "linear") -> Tensor:
    """Resize a position table to another clip length and resolution.

    Args:
        table: Positions (1, T, H, W, D).
        size: New size (T, H, W).
        rule: ``'linear'``: linear along each axis with fixed ends, like ``scipy.ndimage.zoom`` of
            order 1 (scenic's ViViT); a table of one frame is repeated. ``'bicubic'``: antialiased
            bicubic in space (timm), linear in time. ``'bilinear'``: antialiased linear in space,
            then in time, with centers of tokens in place of ends (jax and VideoPrism).
            ``'nearest'``: nearest along all three axes
            (TimeSformer's forward pass). ``'nearest_1d'``: nearest along the flattened sequence
            (TimeSformer's checkpoint loading; it scrambles a grid whose width changes).

    Returns:
        Table (1, *size, D); the same tensor if the size does not change.

    Raises:
        KeyError: If the rule is unknown.
    """
    resize = look_up(RESIZE_RULES, rule, "resize rule")
    t, h, w = size
    if table.shape[1:4] == (t, h, w):
        return table
    wide = table.to(torch.promote_types(table.dtype, torch.float32))
    resized = resize(wide.permute(0, 4, 1, 2, 3), (t, h, w))
    return resized.permute(0, 2, 3, 4, 1).to(table.dtype).contiguous()
