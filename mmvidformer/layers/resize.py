"""Resizing of position tables to other clip lengths and resolutions."""

import torch.nn.functional as F
from torch import Tensor

from mmvidformer.lookup import look_up

Size = tuple[int, int, int]


def _linear(table: Tensor, size: Size) -> Tensor:
    return F.interpolate(table, size=size, mode="trilinear", align_corners=True)


def _nearest(table: Tensor, size: Size) -> Tensor:
    return F.interpolate(table, size=size, mode="nearest")


def _bicubic(table: Tensor, size: Size) -> Tensor:
    frames = table[0].transpose(0, 1)  # (T, D, H, W)
    frames = F.interpolate(frames, size=size[1:], mode="bicubic", antialias=True)
    return _linear(frames.transpose(0, 1)[None], size)


def _nearest_1d(table: Tensor, size: Size) -> Tensor:
    length = size[0] * size[1] * size[2]
    return F.interpolate(table.flatten(2), size=length, mode="nearest").unflatten(2, size)


def _tile(table: Tensor, size: Size) -> Tensor:
    if table.shape[3:] != size[1:] or size[0] % table.shape[2]:
        raise ValueError(
            f"a position table of (T, H, W) {tuple(table.shape[2:])} cannot be tiled to {size}: "
            "only T may grow, by a whole factor"
        )
    return table.repeat(1, 1, size[0] // table.shape[2], 1, 1)


RESIZE_RULES = {
    "linear": _linear,
    "bicubic": _bicubic,
    "nearest": _nearest,
    "nearest_1d": _nearest_1d,
    "tile": _tile,
}


def resize_positions(table: Tensor, size: Size, rule: str = "linear") -> Tensor:
    """Resize a position table.

    Args:
        table: Positions (1, T, H, W, D).
        size: Wanted (T, H, W).
        rule: ``'linear'``: linear along each axis with the ends fixed, as ``scipy.ndimage.zoom``
            of order 1 (scenic's ViViT); a table of one frame is repeated. ``'bicubic'``:
            antialiased bicubic in space (timm), linear in time. ``'nearest'``: nearest in all
            three axes (TimeSformer's forward pass). ``'nearest_1d'``: nearest along the
            flattened sequence (TimeSformer's checkpoint loading; it scrambles a grid whose
            width changes). ``'tile'``: repeat the whole table in time (scenic).

    Returns:
        Table (1, *size, D); the same tensor if nothing changes.

    Raises:
        KeyError: If the rule is unknown.
        ValueError: If the table is not of that shape, the size is not three positive numbers, or
            the table cannot be tiled to it.
    """
    if table.dim() != 5:
        raise ValueError(f"a position table has shape (1, T, H, W, D), got {tuple(table.shape)}")
    resize = look_up(RESIZE_RULES, rule, "resize rule")
    size = tuple(size)
    if len(size) != 3 or min(size) < 1:
        raise ValueError(f"a position table is resized to (T, H, W) of at least 1, got {size}")
    if tuple(table.shape[1:4]) == size:
        return table
    channels_first = table.permute(0, 4, 1, 2, 3).float()
    resized = resize(channels_first, size)
    return resized.permute(0, 2, 3, 4, 1).to(table.dtype).contiguous()
