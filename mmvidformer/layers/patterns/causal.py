"""Patterns that see no later frames, and the class token that reads what the last frame sees."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.masks import Causal
from mmvidformer.layers.patterns.base import Pattern, Sequences
from mmvidformer.layers.tokens import Context, grid_size


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


def past_sequence(
    pattern: Pattern, q: Tensor, k: Tensor, v: Tensor, context: Context, number: int
) -> Sequences:
    """Let the prefix attend to itself and to the places that the last frame sees.

    Args:
        pattern: The pattern, which sees no later frames.
        q: Queries (B, P + T H W, n, d), like the next two.
        k: Keys.
        v: Values.
        context: That of the tokens.
        number: How many causal patterns of the attention come before.

    Returns:
        Queries (B, n, P, d), keys and values (B, n, P + S', d), and mask.
    """
    (queries, _), (prefix_k, k), (prefix_v, v) = (context.grid.split(x) for x in (q, k, v))
    mask, is_there = pattern.mask(k), None
    if isinstance(mask, Causal):
        groups = pattern.num_groups(context.grid.size)
        k, v = (pattern.group(x).flatten(0, 1) for x in (k, v))
        if context.state is None:
            k, v = mask.newest(k), mask.newest(v)
        else:
            k, v, is_there = context.state.look_back(k, v, mask, number)
        k, v = (x.unflatten(0, (-1, groups)).transpose(1, 2).flatten(2, 3) for x in (k, v))
        if is_there is not None:
            is_there = F.pad(is_there.tile(groups), (context.grid.prefix, 0), value=True)
    else:  # of the last frame
        k, v = (x[:, -1].flatten(1, 2).transpose(1, 2) for x in (k, v))
    keys = torch.cat([prefix_k.transpose(1, 2), k], dim=2)
    return queries.transpose(1, 2), keys, torch.cat([prefix_v.transpose(1, 2), v], dim=2), is_there
