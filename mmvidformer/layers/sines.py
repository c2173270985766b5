"""Sines and cosines of the places of tokens (Vaswani et al. 2017, section 3.5)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.tokens import Size


def sine_positions(axes: str, size: Size, like: Tensor, start: Tensor | int = 0) -> Tensor:
    """Sines and cosines of the places on the axes of a grid.

    Args:
        axes: Axes, of the letters t, h, w.
        size: Grid (T, H, W).
        like: Tokens (..., D); set the width, device and type.
        start: Place of the first frame, or those of streams (B, 1).

    Returns:
        Table (1, T, H, W, D), or one of each stream. Channels that are left over, because D is not
        a multiple of twice the number of axes, are 0.
    """
    options = like.shape[-1], like.dtype, like.device
    return compute_once(_sine_table, like, axes, size, start, *options)


def _sine_table(
    axes: str, size: Size, start: Tensor | int, width: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    pairs = width // (2 * len(axes))
    options = angle_options(device, torch.promote_types(dtype, torch.float32), start)
    rates = 10000.0 ** -(torch.arange(pairs, **options) / pairs)
    parts = []
    for axis, count in zip("thw", size, strict=True):
        if axis in axes:
            places = torch.arange(count, **options)
            if axis == "t":
                places = places + (start.to(places) if isinstance(start, Tensor) else start)
            angles = places[..., None] * rates
            waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
            parts.append(repeat_along(axis, waves, size))
    table = join_axes(parts)
    return F.pad(table, (0, width - table.shape[-1])).to(device, dtype)


def flat_sine_positions(size: Size, like: Tensor, start: Tensor | int = 0) -> Tensor:
    """Sines and cosines of the number of a token in the clip; see ``sine_positions``."""
    options = like.shape[-1], like.dtype, like.device
    return compute_once(_flat_sine_table, like, size, start, *options)


def _flat_sine_table(
    size: Size, start: Tensor | int, width: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    t, h, w = size
    options = wide_options(device)
    numbers = torch.arange(t * h * w, **options)
    numbers = numbers + h * w * (start.to(numbers) if isinstance(start, Tensor) else start)
    pairs = torch.arange((width + 1) // 2, **options)
    angles = numbers[..., None] * 10000.0 ** (-2 * pairs / width)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]
    return waves.to(device, dtype).reshape(-1, *size, width)


def angle_options(device: torch.device, dtype: torch.dtype, start: Tensor | int) -> dict[str, Any]:
    """Return the device and type for angles of places: those of an endless stream are wide."""
    is_stream = isinstance(start, Tensor)
    return wide_options(device) if is_stream else dict(device=device, dtype=dtype)


def wide_options(device: torch.device) -> dict[str, Any]:
    """Return the device and type of float64, as float32 has few digits for angles of thousands."""
    has_wide = device.type != "mps"  # Apple's GPUs
    return dict(device=device if has_wide else torch.device("cpu"), dtype=torch.float64)


def repeat_along(axis: str, values: Tensor, size: Size) -> Tensor:
    """Repeat rows (n, c) or (B, n, c) for an axis along the others, to (1 or B, T, H, W, c)."""
    shape = [values.shape[-2] if other == axis else 1 for other in "thw"]
    grids = values.unflatten(-2, shape)
    return (grids if grids.dim() == 5 else grids[None]).expand(-1, *size, -1)


def join_axes(parts: Sequence[Tensor]) -> Tensor:
    """Join the channels of results of ``repeat_along``; streams differ in time alone."""
    rows = max(len(part) for part in parts)
    return torch.cat([part.expand(rows, -1, -1, -1, -1) for part in parts], dim=-1)
