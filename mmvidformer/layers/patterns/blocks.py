"""Patterns that split axes of the grid into blocks: windows, runs of frames, dilated time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.patterns.base import Pattern
from mmvidformer.layers.tokens import Size, grid_size

WINDOW = "b (t i) (h j) (w k) n d -> b (t h w) n (i j k) d"
FRAMES = "b (t i) (h j) (w k) n d -> b t n (i h j w k) d"
DILATED = "b (t i) (h j) (w k) n d -> b (h w i) n (t j k) d"


def once_per_grid(
    build: Callable[[Any, Size, torch.device], Tensor | None],
) -> Callable[[Any, Tensor], Tensor | None]:
    """Turn a method that builds the mask of a grid into ``Pattern.mask``.

    The method returns (G, 1, 1 or S, S') or None; see ``compute_once``.
    """

    def mask(pattern: Any, x: Tensor) -> Tensor | None:
        return compute_once(build, x, pattern, grid_size(x), x.device)

    return wraps(build)(mask)


@dataclass(frozen=True)
class BlockPattern(Pattern):
    """Split each axis in two: t numbers blocks of frames, i the frames of a block; h, j; w, k.

    An axis that the blocks do not divide is padded at its end, after the projection. No token
    attends to padding. A block larger than an axis is clipped to it, and not shifted there.

    Args:
        notation: See ``Pattern``; of the axes t, h, w, i, j, k.
        needs: See ``Pattern``.
        size: Size (T, H, W) of a block.
        shift: Shift (T, H, W) of the blocks, less than the size. The grid is rolled by it; a block
            does not attend across the border.
    """

    size: tuple[int, ...] = (1, 1, 1)
    shift: tuple[int, ...] = (0, 0, 0)

    @property
    def within_frames(self) -> bool:
        """Whether no token sees another frame: a block has one."""
        return "t" in self.groups and self.size[0] == 1

    @property
    def any_places(self) -> bool:
        """Whether places may be left out in all frames: a block has one."""
        return super().any_places and self.size[1:] == (1, 1)

    def lengths(self, grid: Size) -> list[int]:
        """Return the numbers of blocks and their sizes, in the order t, i, h, j, w, k."""
        lengths = []
        for size, axis in zip(self.size, grid, strict=True):
            block = min(size, axis)
            lengths += [-(-axis // block), block]
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
        return super().group(x)  # the padded grid has the same blocks

    def ungroup(self, x: Tensor, grid: Size) -> Tensor:
        """Regroup (B, G, n, S, d) to (B, T, H, W, n, d), roll back and crop."""
        x = super().ungroup(x, grid)
        _, shift = self._padding_and_roll(grid)
        x = x.roll(shift, dims=(1, 2, 3)) if any(shift) else x
        return x[:, : grid[0], : grid[1], : grid[2]]

    @once_per_grid
    def mask(self, grid: Size, device: torch.device) -> Tensor | None:
        """Return which keys a query attends to, (G, 1, 1 or S, S'), or None for all.

        Padding attends to all tokens of its group, since a softmax over nothing is not a number.
        """
        padding, (t, h, w) = self._padding_and_roll(grid)
        if not any((*padding, t, h, w)):
            return None
        # One number for all tokens that are rolled over the same borders; 0 for padding.
        side = torch.ones(1, *grid, 1, 1, dtype=torch.int32, device=device)
        side[:, :t] += 1
        side[:, :, :h] += 2
        side[:, :, :, :w] += 4
        queries = self.group(side)[0]  # (G, 1, S, 1)
        keys = queries.transpose(-1, -2)
        mask = keys > 0
        if t or h or w:
            mask = mask & ((queries == keys) | (queries == 0))
        return mask


def window(size: Sequence[int] = (8, 7, 7), shift: Sequence[int] = (0, 0, 0)) -> BlockPattern:
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
    return BlockPattern(WINDOW, needs, size, shift)


def frames(size: int = 2) -> BlockPattern:
    """Build blocks of ``size`` consecutive frames, whose tokens attend to each other. No paper."""
    block = (*_integers("size", size, least=1, count=1), 1, 1)
    return BlockPattern(FRAMES, frozenset({"padding"}), block)


def dilated_time(dilation: int = 2) -> BlockPattern:
    """Build attention to every ``dilation``-th frame at the place of a token. No paper."""
    block = (*_integers("dilation", dilation, least=1, count=1), 1, 1)
    return BlockPattern(DILATED, frozenset({"padding"}), block)


def _integers(name: str, value: Any, least: int, count: int = 3) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(values) != count or not all(isinstance(n, int) and n >= least for n in values):
        wanted = "an integer" if count == 1 else "three integers (T, H, W)"
        raise UserError(f"{name} must be {wanted} of at least {least}, got {value!r}")
    return values
