"""Windows: each axis of the grid is split into runs of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.patterns.base import Pattern
from mmvidformer.layers.tokens import Size, grid_size

WINDOW = "b (t i) (h j) (w k) n d -> b (t h w) n (i j k) d"


@dataclass(frozen=True)
class WindowPattern(Pattern):
    """Split each axis in two: t numbers runs of frames, i the frames of a run; h, j; w, k.

    An axis that the windows do not divide is padded at its end, after the projection. No token
    attends to padding. A window larger than an axis is clipped to it, and not shifted there.

    Args:
        notation: See ``Pattern``; of the axes t, h, w, i, j, k.
        needs: See ``Pattern``.
        size: Size (T, H, W) of a window.
        shift: Shift (T, H, W) of the windows, less than the size. The grid is rolled by it; a
            window does not attend across the border.
    """

    size: tuple[int, ...] = (1, 1, 1)
    shift: tuple[int, ...] = (0, 0, 0)

    @property
    def within_frames(self) -> bool:
        """Whether no token sees another frame: a window has one."""
        return self.size[0] == 1

    @property
    def any_places(self) -> bool:
        """Whether places may be left out in all frames: a window has one."""
        return self.size[1:] == (1, 1)

    def lengths(self, grid: Size) -> list[int]:
        """Return the numbers of windows and their sizes, in the order t, i, h, j, w, k."""
        lengths = []
        for size, axis in zip(self.size, grid, strict=True):
            length = min(size, axis)
            lengths += [-(-axis // length), length]
        return lengths

    def _padding_and_roll(self, grid: Size) -> tuple[list[int], list[int]]:
        """Return by how much each axis is padded and rolled."""
        rows = list(zip(self.size, self.shift, grid, strict=True))
        padding = [-axis % min(size, axis) for size, _, axis in rows]
        return padding, [shift if size < axis else 0 for size, shift, axis in rows]

    def group(self, x: Tensor) -> Tensor:
        """Pad, roll and regroup (B, T, H, W, n, d) to (B, G, n, S, d)."""
        (t, h, w), shift = self._padding_and_roll(grid_size(x))
        if t or h or w:
            x = F.pad(x, (0, 0, 0, 0, 0, w, 0, h, 0, t))
        if any(shift):
            x = x.roll([-places for places in shift], dims=(1, 2, 3))
        return super().group(x)  # the padded grid has the same windows

    def ungroup(self, x: Tensor, grid: Size) -> Tensor:
        """Regroup (B, G, n, S, d) to (B, T, H, W, n, d), roll back and crop."""
        x = super().ungroup(x, grid)
        _, shift = self._padding_and_roll(grid)
        x = x.roll(shift, dims=(1, 2, 3)) if any(shift) else x
        return x[:, : grid[0], : grid[1], : grid[2]]

    def mask(self, x: Tensor) -> Tensor | None:
        """Return which keys a query attends to, (G, 1, 1 or S, S'), or None for all."""
        return compute_once(_window_mask, x, self, grid_size(x), x.device)


def _window_mask(pattern: WindowPattern, grid: Size, device: torch.device) -> Tensor | None:
    """Build the mask of a grid.

    Padding attends to all tokens of its group, since a softmax over nothing is not a number.
    """
    padding, (t, h, w) = pattern._padding_and_roll(grid)
    if not any((*padding, t, h, w)):
        return None
    # One number for all tokens that are rolled over the same borders; 0 for padding.
    side = torch.ones(1, *grid, 1, 1, dtype=torch.int32, device=device)
    side[:, :t] += 1
    side[:, :, :h] += 2
    side[:, :, :, :w] += 4
    queries = pattern.group(side)[0]  # (G, 1, S, 1)
    keys = queries.transpose(-1, -2)
    mask = keys > 0
    if t or h or w:
        mask = mask & ((queries == keys) | (queries == 0))
    return mask


def window(size: Sequence[int] = (8, 7, 7), shift: Sequence[int] = (0, 0, 0)) -> WindowPattern:
    """Build windows of tokens, Liu et al. 2022 (Video Swin Transformer), section 3.

    Padding is masked. In the official code tokens attend to it, so results differ from that code if
    the windows do not divide the grid.

    Args:
        size: Size (T, H, W) of a window. Default: that of the paper.
        shift: Shift (T, H, W), less than the size. In the paper every second layer has half of it.
    """
    size, shift = _integers("size", size, least=1), _integers("shift", shift, least=0)
    if any(places >= most for places, most in zip(shift, size, strict=True)):
        raise UserError(f"shift of a window must be less than its size {size}, got {shift}")
    needs = frozenset({"padding", "pairs"} if any(shift) else {"padding"})
    return WindowPattern(WINDOW, needs, size, shift)


def _integers(name: str, value: Any, least: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(values) != 3 or not all(isinstance(n, int) and n >= least for n in values):
        wanted = f"three integers (T, H, W) of at least {least}"
        raise UserError(f"{name} must be {wanted}, got {value!r}")
    return values
