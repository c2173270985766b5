"""Patterns that regroup whole axes of the grid, and TimeSformer's local and strided ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from math import prod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmvidformer.layers.masks import Mask

Grid = tuple[int, int, int]


def grid_size(x: Tensor) -> Grid:
    """Return the size (T, H, W) of tokens (B, T, H, W, ...)."""
    _, t, h, w = x.shape[:4]
    return t, h, w


def once_per_grid(
    build: Callable[[Any, Grid, torch.device], Tensor | None],
) -> Callable[[Any, Tensor], Tensor | None]:
    """Turn a method that builds the mask of a grid into ``Pattern.mask``.

    The method returns (G, 1, 1 or S, S') or None. Its last results are kept, except where tensors
    are not real, as for a compiler or under ``FakeTensorMode``.
    """
    kept = lru_cache(maxsize=16)(build)

    def mask(pattern: Any, x: Tensor) -> Tensor | None:
        where = pattern, grid_size(x), x.device
        if torch.compiler.is_compiling() or type(x) is not Tensor:
            found = build(*where)
        else:
            with torch.inference_mode(False):  # for later calls with gradients
                found = kept(*where)
        return None if found is None else found.repeat(x.shape[0], 1, 1, 1)

    return wraps(build)(mask)


@dataclass(frozen=True)
class Pattern:
    """Regroup the tokens of a grid into sequences and back.

    Args:
        groups: Grid axes that number the sequences, a subset of ``'thw'``.
        tokens: The other axes, which run along a sequence.
        masks: Kinds of masks that it asks of a kernel (``layers.masks.MASK_KINDS``).
    """

    groups: str
    tokens: str
    masks: frozenset[str] = frozenset()

    axes: ClassVar[str] = "t h w"
    # Whether the keys of a group are its queries.
    own_keys: ClassVar[bool] = True
    # Whether a key is copied into many groups. The copies are not kept for the backward pass.
    gathers: ClassVar[bool] = False

    @property
    def frame_block(self) -> int | None:
        """Number of frames of the blocks, from the first on, between which no token sees another.

        None: there are no such blocks.
        """
        return 1 if "t" in self.groups else None

    @property
    def causal(self) -> bool:
        """Whether no token sees a later frame."""
        return self.frame_block == 1 or "causal" in self.masks

    @property
    def any_places(self) -> bool:
        """Whether places may be left out in all frames: it has no use for rows and columns."""
        return self.own_keys and ("h" in self.groups) == ("w" in self.groups)

    @property
    def _einops(self) -> tuple[str, str]:
        groups, tokens = " ".join(self.groups), " ".join(self.tokens)
        return f"b {self.axes} n d", f"(b {groups}) n ({tokens}) d"

    def _lengths(self, grid: Grid) -> dict[str, int]:
        return dict(zip("thw", grid, strict=True))

    def group(self, x: Tensor) -> Tensor:
        """Regroup (B, T, H, W, n, d) to (B*G, n, S, d)."""
        source, sequences = self._einops
        return rearrange(x, f"{source} -> {sequences}", **self._lengths(grid_size(x)))

    def ungroup(self, x: Tensor, grid: Grid) -> Tensor:
        """Regroup (B*G, n, S, d) back to (B, T, H, W, n, d)."""
        target, sequences = self._einops
        return rearrange(x, f"{sequences} -> {target}", **self._lengths(grid))

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values of each group: (B, T, H, W, n, d) to (B*G, n, S', d)."""
        return self.group(x)

    def mask(self, x: Tensor) -> Mask:
        """Return which ``keys(x)`` a query attends to: (B*G, 1, 1 or S, S'), or None for all."""
        return None

    def num_groups(self, grid: Grid) -> int:
        """Return the number of groups of a grid (T, H, W)."""
        lengths = self._lengths(grid)
        return prod([lengths[axis] for axis in self.groups])

    def num_tokens(self, grid: Grid) -> int:
        """Return the number of queries per group of a grid (T, H, W), padding included."""
        lengths = self._lengths(grid)
        return prod([lengths[axis] for axis in self.tokens])

    def num_keys(self, grid: Grid) -> int:
        """Return the number of keys per group of a grid (T, H, W), padding included."""
        return self.keys(torch.empty(1, *grid, 1, 1, device="meta")).shape[-2]

    def spread(self, per_group: Tensor, grid: Grid) -> Tensor:
        """Reshape one number per group, (B, G) or (B, 1), to broadcast over (B, T, H, W, D)."""
        if per_group.shape[1] == 1:
            return per_group[:, :, None, None, None]
        per_token = per_group.reshape(-1, 1, 1, 1).expand(-1, 1, self.num_tokens(grid), 1)
        return self.ungroup(per_token, grid)[..., 0]


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

    own_keys: ClassVar[bool] = False
    gathers: ClassVar[bool] = True

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values in the window of each place, (B*H*W, n, T*h*w, d)."""
        height, width = max(x.shape[2] // 2, 1), max(x.shape[3] // 2, 1)
        up, left = height // 2, width // 2
        x = F.pad(x, (0, 0, 0, 0, left, width - left - 1, up, height - up - 1))
        windows = x.unfold(2, height, 1).unfold(3, width, 1)
        return rearrange(windows, "b t h w n d i j -> (b h w) n (t i j) d")

    @once_per_grid
    def mask(self, grid: Grid, device: torch.device) -> Tensor:
        """Return which keys are inside the grid, (H*W, 1, 1, T*h*w)."""
        inside = torch.ones(1, *grid, 1, 1, dtype=torch.bool, device=device)
        return self.keys(inside).transpose(-1, -2)


@dataclass(frozen=True)
class StridedPattern(Pattern):
    """All tokens attend to every second token in time, height and width.

    The sparse global attention of TimeSformer's "L+G" (paper, section 3).
    """

    own_keys: ClassVar[bool] = False

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys or values at even places, (B, n, S', d)."""
        return self.group(x[:, ::2, ::2, ::2])
