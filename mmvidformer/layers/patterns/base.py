"""Patterns that regroup whole axes of the grid, and TimeSformer's local and strided ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from math import prod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.masks import Mask
from mmvidformer.layers.tokens import Size


def grid_size(x: Tensor) -> Size:
    """Return the size (T, H, W) of tokens (B, T, H, W, ...)."""
    _, t, h, w = x.shape[:4]
    return t, h, w


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
class Pattern:
    """Regroup the places of a grid into sequences and back.

    Args:
        notation: How, as einops writes it; such as ``'b t h w n d -> b t n (h w) d'`` for
            attention within a frame: between b and n are the axes that number the sequences, after
            n those that run along a sequence. Without the former it has a 1.
        needs: What it asks of a kernel (``layers.abilities``).

    Attributes:
        groups: Axes that number the sequences, such as ``'t'`` or ``'hw'``.
        tokens: Axes that run along a sequence.
        axes: All axes, in the order of the grid; one that is split has two.
        whole: Whether all tokens see each other as one sequence, so that nothing is regrouped.
    """

    notation: str
    needs: frozenset[str] = frozenset()
    groups: str = field(init=False, compare=False, repr=False)
    tokens: str = field(init=False, compare=False, repr=False)
    axes: str = field(init=False, compare=False, repr=False)
    whole: bool = field(init=False, compare=False, repr=False)
    _there: tuple[int, ...] = field(init=False, compare=False, repr=False)
    _back: tuple[int, ...] = field(init=False, compare=False, repr=False)

    # Whether a key is copied into many groups. The copies are not kept for the backward pass.
    gathers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        grid, _, sequences = self.notation.partition(" -> ")
        sides = sequences.removeprefix("b ").removesuffix(" d").split(" n ")
        groups, tokens = ("".join(filter(str.isalpha, side)) for side in sides)
        axes = "".join(filter(str.isalpha, grid))[1:-2]
        order = f"b{groups}n{tokens}d"  # of the axes b, those of the grid, n, d
        there = tuple(f"b{axes}nd".index(axis) for axis in order)
        unmasked = type(self).mask is Pattern.mask
        fields = dict(
            groups=groups,
            tokens=tokens,
            axes=axes,
            whole=not groups and unmasked and "other_keys" not in self.needs,
            _there=there,
            _back=tuple(order.index(axis) for axis in f"b{axes}nd"),
        )
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def within_frames(self) -> bool:
        """Whether no token sees another frame."""
        return "t" in self.groups

    @property
    def causal(self) -> bool:
        """Whether no token sees a later frame."""
        return self.within_frames or "causal" in self.needs

    @property
    def any_places(self) -> bool:
        """Whether places may be left out in all frames: it has no use for rows and columns."""
        together = ("h" in self.groups) == ("w" in self.groups)
        return together and "other_keys" not in self.needs

    def lengths(self, grid: Size) -> Sequence[int]:
        """Return the lengths of the ``axes`` of a grid (T, H, W)."""
        return grid

    def group(self, x: Tensor) -> Tensor:
        """Regroup (B, T, H, W, n, d) to (B, G, n, S, d)."""
        if len(self.axes) > 3:
            x = x.reshape(x.shape[0], *self.lengths(grid_size(x)), *x.shape[4:])
        count = len(self.groups)
        x = x.permute(self._there)
        if len(self.tokens) > 1:
            x = x.flatten(count + 2, -2)
        return x.flatten(1, count) if count else x.unsqueeze(1)

    def ungroup(self, x: Tensor, grid: Size) -> Tensor:
        """Regroup (B, G, n, S, d) back to (B, T, H, W, n, d)."""
        lengths = self.lengths(grid)
        if len(self.tokens) > 1:
            x = torch.unflatten(x, 3, self._of_axes(self.tokens, lengths))
        if len(self.groups) > 1:
            x = torch.unflatten(x, 1, self._of_axes(self.groups, lengths))
        x = (x if self.groups else x.squeeze(1)).permute(self._back)
        if len(self.axes) == 3:
            return x
        t, i, h, j, w, k = lengths
        return x.reshape(x.shape[0], t * i, h * j, w * k, *x.shape[-2:])

    def _of_axes(self, axes: str, lengths: Sequence[int]) -> list[int]:
        return [lengths[self.axes.index(axis)] for axis in axes]

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values of each group: (B, T, H, W, n, d) to (B, G, n, S', d)."""
        return self.group(x)

    def mask(self, x: Tensor) -> Mask:
        """Return which ``keys(x)`` a query attends to: (G, 1, 1 or S, S'), or None for all."""
        return None

    def num_groups(self, grid: Size) -> int:
        """Return the number of groups of a grid (T, H, W)."""
        return prod(self._of_axes(self.groups, self.lengths(grid)))

    def num_tokens(self, grid: Size) -> int:
        """Return the number of queries per group of a grid (T, H, W), padding included."""
        return prod(self._of_axes(self.tokens, self.lengths(grid)))

    def num_keys(self, grid: Size) -> int:
        """Return the number of keys per group of a grid (T, H, W), padding included."""
        return self.keys(torch.empty(1, *grid, 1, 1, device="meta")).shape[-2]

    def to_places(self, per_group: Tensor, grid: Size) -> Tensor:
        """Give each place the number of its group: (B, G) to (B, T H W, 1)."""
        per_token = per_group[:, :, None, None, None].expand(-1, -1, 1, self.num_tokens(grid), 1)
        return self.ungroup(per_token, grid).flatten(1, 3)[..., 0]


@dataclass(frozen=True)
class LocalPattern(Pattern):
    """Each place attends to all frames of a window of half the height and half the width around it.

    The local attention of TimeSformer's "L+G" (paper, section 3: ``F x H/2 x W/2`` neighbors),
    for which there is no public code. The window is clipped at the border: keys outside the grid
    are masked, so a corner has fewer keys. A window of even size reaches one place further up and
    left. The queries of a place in all frames form a group. Keys are gathered once per window that
    they are in; there is no (T H W) x (T H W) mask. In training they are gathered for some heads at
    a time, and again in the backward pass, so that no copies are kept.
    """

    gathers: ClassVar[bool] = True

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values in the window of each place, (B, H*W, n, T*h*w, d)."""
        height, width = max(x.shape[2] // 2, 1), max(x.shape[3] // 2, 1)
        up, left = height // 2, width // 2
        x = F.pad(x, (0, 0, 0, 0, left, width - left - 1, up, height - up - 1))
        windows = x.unfold(2, height, 1).unfold(3, width, 1)
        # (B, T, H, W, n, d, h, w) to (B, H, W, n, T, h, w, d)
        return windows.permute(0, 2, 3, 4, 1, 6, 7, 5).flatten(4, 6).flatten(1, 2)

    @once_per_grid
    def mask(self, grid: Size, device: torch.device) -> Tensor:
        """Return which keys are inside the grid, (H*W, 1, 1, T*h*w)."""
        inside = torch.ones(1, *grid, 1, 1, dtype=torch.bool, device=device)
        return self.keys(inside)[0].transpose(-1, -2)


@dataclass(frozen=True)
class StridedPattern(Pattern):
    """All tokens attend to every second token in time, height and width.

    The sparse global attention of TimeSformer's "L+G" (paper, section 3).
    """

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values at even places, (B, 1, n, S', d)."""
        return self.group(x[:, ::2, ::2, ::2])
