from dataclasses import dataclass

from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.masks import Causal
from mmvidformer.layers.patterns.base import Pattern
from mmvidformer.layers.tokens import grid_size


@dataclass(frozen=True)
class CausalPattern(Pattern):
    """A token attends to those of its own and earlier frames in its group. No paper.

    A class token has to skip it, or to be a sink: it would carry later frames to earlier ones.

    Args:
        past: Number of frames that a token sees, its own included; None for all.
    """

    past: int | None = None

    def mask(self, x: Tensor) -> Causal:
        """Return the mask of a grid (B, T, H, W, n, d)."""
        grid = grid_size(x)
        return Causal(self.num_tokens(grid) // grid[0], self.past)


def causal(notation: str, past: int | None = None) -> CausalPattern:
    """Build a causal pattern; raises a UserError if ``past`` is not at least 2."""
    if past is not None and (not isinstance(past, int) or past < 2):
        raise UserError(f"past must be an integer of at least 2, or None for all, got {past!r}")
    return CausalPattern(notation, Causal(past=past).kinds, past)
