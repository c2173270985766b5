"""Who sees whom: each view regroups a grid of tokens into sequences.

A view is a row of ``VIEWS``. Its groups are independent sequences; its tokens are the members
of one sequence. Letters: B batch, T H W grid, n heads, d head width, G groups, S tokens a group.
"""

from dataclasses import dataclass

from einops import rearrange
from torch import Tensor

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class View:
    """Regroup per-head tokens of a (T, H, W) grid into sequences and back.

    Args:
        groups: Grid axes that number the sequences, a subset of ``'thw'``.
        tokens: The other axes, which run along a sequence.
    """

    groups: str
    tokens: str

    @property
    def _pattern(self) -> tuple[str, str]:
        groups, tokens = " ".join(self.groups), " ".join(self.tokens)
        return "b t h w n d", f"(b {groups}) n ({tokens}) d"

    def group(self, x: Tensor) -> Tensor:
        """Regroup (B, T, H, W, n, d) to (B*G, n, S, d)."""
        grid, sequences = self._pattern
        return rearrange(x, f"{grid} -> {sequences}")

    def ungroup(self, x: Tensor, grid: Grid) -> Tensor:
        """Regroup (B*G, n, S, d) back to (B, T, H, W, n, d)."""
        target, sequences = self._pattern
        return rearrange(x, f"{sequences} -> {target}", **dict(zip("thw", grid, strict=True)))

    def num_groups(self, grid: Grid) -> int:
        """Sequences that one grid of size (T, H, W) gives."""
        count = 1
        for axis, size in zip("thw", grid, strict=True):
            count *= size if axis in self.groups else 1
        return count

    def spread(self, per_group: Tensor, grid: Grid) -> Tensor:
        """Lay one number a group, (B, G) or (B, 1), over the grid as (B, T|1, H|1, W|1, 1)."""
        if per_group.shape[1] == 1:
            return per_group[:, :, None, None, None]
        axes = [size if axis in self.groups else 1 for axis, size in zip("thw", grid, strict=True)]
        return per_group.reshape(-1, *axes, 1)


VIEWS: dict[str, View] = {
    "joint": View(groups="", tokens="thw"),
    "space": View(groups="t", tokens="hw"),
    "time": View(groups="hw", tokens="t"),
    "width": View(groups="th", tokens="w"),
    "height": View(groups="tw", tokens="h"),
}


def get_view(name: str) -> View:
    """Look a view up by name.

    Raises:
        KeyError: If there is no such view; the message lists the names.
    """
    if name not in VIEWS:
        raise KeyError(f"no view named {name!r}; known are {sorted(VIEWS)}")
    return VIEWS[name]
