"""Who sees whom: each pattern regroups a grid of tokens into sequences.

A pattern is a row of ``PATTERNS``. Its groups are independent sequences; its tokens are the members
of one sequence. Letters: B batch, T H W grid, n heads, d head width, G groups, S tokens a group.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmvidformer.lookup import look_up

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Pattern:
    """Regroup per-head tokens of a (T, H, W) grid into sequences and back.

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

    def keys(self, x: Tensor) -> Tensor:
        """Keys or values that each group sees: (B, T, H, W, n, d) to (B*G, n, S', d)."""
        return self.group(x)

    def mask(self, grid: Grid, device: torch.device) -> Tensor | None:
        """Keys that exist, as booleans (G, S'), or None where all do."""
        return None

    def ungroup(self, x: Tensor, grid: Grid) -> Tensor:
        """Regroup (B*G, n, S, d) back to (B, T, H, W, n, d)."""
        target, sequences = self._einops
        return rearrange(x, f"{sequences} -> {target}", **dict(zip("thw", grid, strict=True)))

    def num_groups(self, grid: Grid) -> int:
        """Sequences that one grid of size (T, H, W) gives."""
        count = 1
        for axis, size in zip("thw", grid, strict=True):
            count *= size if axis in self.groups else 1
        return count

    def num_tokens(self, grid: Grid) -> int:
        """Queries of one sequence, for a grid of size (T, H, W)."""
        return grid[0] * grid[1] * grid[2] // self.num_groups(grid)

    def spread(self, per_group: Tensor, grid: Grid) -> Tensor:
        """Lay one number a group, (B, G) or (B, 1), over the grid as (B, T|1, H|1, W|1, 1)."""
        if per_group.shape[1] == 1:
            return per_group[:, :, None, None, None]
        axes = [size if axis in self.groups else 1 for axis, size in zip("thw", grid, strict=True)]
        return per_group.reshape(-1, *axes, 1)


@dataclass(frozen=True)
class LocalPattern(Pattern):
    """Each place sees all frames of the window of half the height and width around it.

    The local attention of TimeSformer's "L+G" (paper section 3.4, ``F x H/2 x W/2`` neighbours),
    for which there is no public code. At a border the window is clipped: what lies outside is
    masked, so that a corner sees fewer keys. A window of even size reaches one place further up
    and left. The queries of a place (all frames) form a group; keys are gathered as many times
    as windows overlap, and no (T H W) x (T H W) mask is made.
    """

    @staticmethod
    def _window(grid: Grid) -> tuple[int, int]:
        return max(grid[1] // 2, 1), max(grid[2] // 2, 1)

    def _unfold(self, x: Tensor, window: tuple[int, int]) -> Tensor:
        """Pad (B, T, H, W, ...) and view it as (B, T, H, W, ..., h, w)."""
        up, left = window[0] // 2, window[1] // 2
        pads = (0, 0) * (x.dim() - 4) + (left, window[1] - left - 1, up, window[0] - up - 1)
        return F.pad(x, pads).unfold(2, window[0], 1).unfold(3, window[1], 1)

    def keys(self, x: Tensor) -> Tensor:
        """Keys or values of the window of each place: (B*H*W, n, T*h*w, d)."""
        windows = self._unfold(x, self._window(tuple(x.shape[1:4])))
        return rearrange(windows, "b t h w n d i j -> (b h w) n (t i j) d")

    def mask(self, grid: Grid, device: torch.device) -> Tensor:
        """Keys that lie inside the grid, (H*W, T*h*w)."""
        inside = torch.ones(1, *grid, 1, device=device)
        windows = self._unfold(inside, self._window(grid)) > 0
        return rearrange(windows, "1 t h w 1 i j -> (h w) (t i j)")


@dataclass(frozen=True)
class StridedPattern(Pattern):
    """All tokens see every second one in time, height and width.

    The sparse global attention of TimeSformer's "L+G" (paper section 3.4).
    """

    def keys(self, x: Tensor) -> Tensor:
        """Keys or values at the even places: (B, n, S', d)."""
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
