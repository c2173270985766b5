"""Patterns regroup tokens into sequences and back: places by axes of the grid, and the prefix.

Class tokens and registers, the prefix of the tokens, are in the groups by their role:

==========  ====================================================================================
``mean``    a copy joins each group, in front of its tokens; the copies are averaged afterwards
``global``  its keys and values join each group; its queries attend to all tokens, apart
``sink``    it attends to itself and to what the last frame sees; no place attends to it
``skip``    none, and ``Attention`` gets the places alone
==========  ====================================================================================
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.tokens import Context, Size, grid_size, split_counts

Sequences = tuple[Tensor, Tensor, Tensor, Mask]  # queries, keys, values (..., n, S, d), and mask


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
