"""Class tokens and registers, the prefix of the tokens, in the groups of a pattern.

==========  ====================================================================================
role        in the groups
==========  ====================================================================================
``mean``    a copy joins each group, in front of its tokens; the copies are averaged afterwards
``global``  its keys and values join each group; its queries attend to all tokens, apart
``skip``    none, and ``Attention`` gets the places alone
==========  ====================================================================================
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.patterns.base import Pattern
from mmvidformer.layers.tokens import Context, Grid, split_counts

Sequences = tuple[Tensor, Tensor, Tensor, Mask]  # queries, keys, values (..., n, S, d), and mask


def regroup(
    pattern: Pattern, role: str, q: Tensor, k: Tensor, v: Tensor, context: Context
) -> Sequences:
    """Regroup queries, keys and values (B, P + T H W, n, d) to the sequences of a pattern.

    They are (B, G, n, S, d) with a mask of pairs (G, 1, S, S'), which all clips share, and
    otherwise (B*G, n, S, d).
    """
    if pattern.whole:
        return one_sequence(q, k, v, context)
    prefix, places = context.grid.split(q)
    queries = pattern.group(places)
    if role != "global":
        queries = join(prefix, queries)
    return with_keys(pattern, role, queries, k, v, context)


def one_sequence(q: Tensor, k: Tensor, v: Tensor, context: Context) -> Sequences:
    """Let queries (B, L, n, d) attend to all tokens, of keys and values (B, P + T H W, n, d)."""
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), count_tokens(context)


def with_keys(
    pattern: Pattern, role: str, queries: Tensor, k: Tensor, v: Tensor, context: Context
) -> Sequences:
    """Add the keys, the values and the mask to queries (B, G, n, S, d) of groups.

    Copies of the prefix come first among the queries; there may be no others.
    """
    prefix = context.grid.prefix
    (prefix_k, k), (prefix_v, v) = context.grid.split(k), context.grid.split(v)
    mask = pattern.mask(k)
    keys, values = join(prefix_k, pattern.keys(k)), join(prefix_v, pattern.keys(v))
    if mask is None and context.counts is None:
        return queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1), None
    if isinstance(mask, Tensor):
        if prefix:
            mask = F.pad(mask, (prefix, 0), value=True)
        if prefix and role == "mean" and mask.shape[-2] > 1:
            # A copy sees what any token of its group sees.
            seen = mask.any(dim=-2, keepdim=True).expand(-1, -1, prefix, -1)
            mask = torch.cat([seen, mask], dim=-2)[..., : queries.shape[-2], :]
        if mask.shape[-2] > 1 and context.counts is None:
            return queries, keys, values, mask
        mask = mask.repeat(k.shape[0], 1, 1, 1)
    mask = count_keys(pattern, mask, context)
    return queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1), mask


def ungroup(
    pattern: Pattern, role: str, out: Tensor, context: Context, factors: Tensor | None = None
) -> Tensor:
    """Bring the output of a kernel, (..., n, S, d), back to the order of the tokens.

    Args:
        pattern: The pattern.
        role: Role of the prefix.
        out: Output for the queries of ``regroup``.
        context: As there.
        factors: Those of the groups (B, G), from stochastic depth, by which the copies of the
            prefix are averaged. Default: equal ones.

    Returns:
        (B, P + T H W, n d); with ``'global'``, (B, T H W, n d) unless the pattern is one sequence.
    """
    grid = context.grid
    if pattern.whole:
        return out.transpose(1, 2).flatten(2)
    if out.dim() == 4:
        out = torch.unflatten(out, 0, (-1, pattern.num_groups(grid.size)))  # (B, G, n, S, d)
    if not grid.prefix or role == "global":
        return pattern.ungroup(out, grid.size).flatten(1, 3).flatten(2)
    prefix, out = out.split_with_sizes([grid.prefix, out.shape[3] - grid.prefix], dim=3)
    places = pattern.ungroup(out, grid.size).flatten(1, 3).flatten(2)
    return torch.cat([merge(prefix, count_groups(pattern, factors, context)), places], dim=1)


def count_tokens(context: Context) -> Tensor | None:
    """Return how many times all tokens count as keys, (B, 1, 1, P + T H W); None if once."""
    if context.counts is None:
        return None
    return F.pad(context.counts.flatten(1), (context.grid.prefix, 0), value=1.0)[:, None, None]


def count_keys(pattern: Pattern, mask: Mask, context: Context) -> Mask:
    """Turn the mask of keys into how many times they count, if tokens have weights."""
    if context.counts is None:
        return mask
    if isinstance(mask, Causal):
        raise UserError("causal attention cannot count a key several times; leave counts out")
    counts = context.counts
    if pattern.within_frames:  # a frame in which all count n times is n frames
        counts, _ = split_counts(counts, context.kept)
    counts = pattern.keys(counts[..., None, None]).transpose(-1, -2).flatten(0, 1)
    counts = F.pad(counts, (context.grid.prefix, 0), value=1.0)  # (B*G, 1, 1, S')
    counts = counts if mask is None else counts * mask
    # What sees padding alone is padding. It may be any number, but none is infinite.
    return torch.where(counts.sum(dim=-1, keepdim=True) > 0, counts, 1.0)


def count_groups(pattern: Pattern, factors: Tensor | None, context: Context) -> Tensor | None:
    """Multiply the factors of groups, (B, G) or (B, 1), by how many times these count.

    Those of padding alone do not count.
    """
    if context.counts is None:
        return factors
    _, frames = split_counts(context.counts, context.kept)
    counts = frames if pattern.within_frames else torch.ones_like(frames)
    counts = torch.where(context.counts > 0, counts, 0)[..., None, None]
    groups = pattern.group(counts).amax(dim=(2, 3, 4))
    return groups if factors is None else factors * groups


def scale_update(update: Tensor, pattern: Pattern, draw: Draw, grid: Grid) -> Tensor:
    """Multiply an update (B, P + T H W, D), or its first tokens, by the factors of their groups.

    That of a prefix is its own, if it has one, or the mean of the groups'.
    """
    factors, prefix = draw
    if factors.shape[1] == 1 and prefix is None:
        return update * factors[..., None]
    if factors.shape[1] == 1:
        places = factors[..., None].expand(-1, grid.num_places, -1)
    else:
        places = pattern.to_places(factors, grid.size)
    if not grid.prefix:
        return update * places
    prefix = factors.mean(dim=1, keepdim=True) if prefix is None else prefix
    factors = torch.cat([prefix[..., None].expand(-1, grid.prefix, -1), places], dim=1)
    return update * factors[:, : update.shape[1]]


def join(prefix: Tensor, groups: Tensor) -> Tensor:
    """Put a copy of the prefix (B, P, n, d) in front of each group (B, G, n, S, d)."""
    if not prefix.shape[1]:
        return groups
    return torch.cat([copies(prefix, groups.shape[1]), groups], dim=3)


def copies(prefix: Tensor, count: int) -> Tensor:
    """Copy the prefix (B, P, n, d) for each of G groups, (B, G, n, P, d)."""
    return prefix.transpose(1, 2)[:, None].expand(-1, count, -1, -1, -1)


def merge(prefix: Tensor, factors: Tensor | None) -> Tensor:
    """Average copies (B, G, n, P, d) to (B, P, n d), by the factors (B, G) of their groups."""
    if factors is None or factors.shape[1] == 1:
        mean = prefix.mean(dim=1)
    else:
        total = factors.sum(dim=1, keepdim=True)
        weights = factors / total.clamp_min(torch.finfo(factors.dtype).tiny)
        mean = (prefix * weights[:, :, None, None, None]).sum(dim=1)
    return mean.transpose(1, 2).flatten(2)
