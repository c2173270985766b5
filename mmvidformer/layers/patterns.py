"""Attention patterns: who attends to whom.

A pattern is a row of ``PATTERNS``. It regroups a grid of tokens into independent sequences, its
groups. Letters: B batch, T H W grid, n heads, d head width, G groups, S tokens per group, S' keys
per group.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmvidformer.lookup import look_up

Grid = tuple[int, int, int]


def grid_size(x: Tensor) -> Grid:
    """Return the size (T, H, W) of tokens (B, T, H, W, ...)."""
    _, t, h, w = x.shape[:4]
    return t, h, w


@dataclass(frozen=True)
class Pattern:
    """Regroup the tokens of a grid into sequences and back.

    Args:
        groups: Grid axes that number the sequences, a subset of ``'thw'``.
        tokens: The other axes, which run along a sequence.
    """

    groups: str
    tokens: str

    @property
    def _einops(self) -> tuple[str, str]:
        groups, tokens = " ".join(self.groups), " ".join(self.tokens)
        return "b t h w n d", f"(b {groups}) n ({tokens}) d"

    def group(self, x: Tensor) -> Tensor:
        """Regroup (B, T, H, W, n, d) to (B*G, n, S, d)."""
        grid, sequences = self._einops
        return rearrange(x, f"{grid} -> {sequences}")

    def ungroup(self, x: Tensor, grid: Grid) -> Tensor:
        """Regroup (B*G, n, S, d) back to (B, T, H, W, n, d)."""
        target, sequences = self._einops
        return rearrange(x, f"{sequences} -> {target}", **dict(zip("thw", grid, strict=True)))

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values of each group: (B, T, H, W, n, d) to (B*G, n, S', d)."""
        return self.group(x)

    def mask(self, x: Tensor) -> Tensor | None:
        """Return which of the keys ``keys(x)`` exist, (B*G, 1, 1, S'), or None if all do."""
        return None

    def num_groups(self, grid: Grid) -> int:
        """Return the number of groups of a grid (T, H, W)."""
        count = 1
        for axis, size in zip("thw", grid, strict=True):
            count *= size if axis in self.groups else 1
        return count

    def num_tokens(self, grid: Grid) -> int:
        """Return the number of queries per group of a grid (T, H, W)."""
        return grid[0] * grid[1] * grid[2] // self.num_groups(grid)

    def spread(self, per_group: Tensor, grid: Grid) -> Tensor:
        """Reshape one number per group, (B, G) or (B, 1), to broadcast over (B, T, H, W, D)."""
        if per_group.shape[1] == 1:
            return per_group[:, :, None, None, None]
        axes = [size if axis in self.groups else 1 for axis, size in zip("thw", grid, strict=True)]
        return per_group.reshape(-1, *axes, 1)


@dataclass(frozen=True)
class LocalPattern(Pattern):
    """Each place attends to all frames of a window of half the height and half the width around it.

    The local attention of TimeSformer's "L+G" (paper, section 3.4: ``F x H/2 x W/2`` neighbors),
    for which there is no public code. The window is clipped at the border: keys outside the grid
    are masked, so a corner has fewer keys. A window of even size reaches one place further up and
    left. The queries of a place in all frames form a group. Keys are gathered once per window that
    they are in; there is no (T H W) x (T H W) mask.
    """

    @staticmethod
    def _unfold(x: Tensor) -> Tensor:
        """Pad (B, T, H, W, ...) and unfold it to windows (B, T, H, W, ..., h, w)."""
        height, width = max(x.shape[2] // 2, 1), max(x.shape[3] // 2, 1)
        up, left = height // 2, width // 2
        pads = (0, 0) * (x.dim() - 4) + (left, width - left - 1, up, height - up - 1)
        return F.pad(x, pads).unfold(2, height, 1).unfold(3, width, 1)

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values in the window of each place, (B*H*W, n, T*h*w, d)."""
        return rearrange(self._unfold(x), "b t h w n d i j -> (b h w) n (t i j) d")

    def mask(self, x: Tensor) -> Tensor:
        """Return which keys are inside the grid, (B*H*W, 1, 1, T*h*w)."""
        inside = torch.ones(1, *grid_size(x), device=x.device)
        windows = rearrange(self._unfold(inside) > 0, "1 t h w i j -> (h w) 1 1 (t i j)")
        return windows.repeat(x.shape[0], 1, 1, 1)


@dataclass(frozen=True)
class StridedPattern(Pattern):
    """All tokens attend to every second token in time, height and width.

    The sparse global attention of TimeSformer's "L+G" (paper, section 3.4).
    """

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values at even places, (B, n, S', d)."""
        return self.group(x[:, ::2, ::2, ::2])


PATTERNS: dict[str, Pattern] = {
    "joint": Pattern(groups="", tokens="thw"),
    "space": Pattern(groups="t", tokens="hw"),
    "time": Pattern(groups="hw", tokens="t"),
    "width": Pattern(groups="th", tokens="w"),
    "height": Pattern(groups="tw", tokens="h"),
    "local": LocalPattern(groups="hw", tokens="t"),
    "strided": StridedPattern(groups="", tokens="thw"),
}


def get_pattern(name: str) -> Pattern:
    """Look up a pattern by name.

    Raises:
        KeyError: If there is no such pattern; the message lists the names.
    """
    return look_up(PATTERNS, name, "pattern")
