"""Attention by the definitions of the patterns, one pair of tokens at a time."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers import PATTERNS, Attention
from mmvidformer.layers.patterns.causal import CausalPattern
from tests.layers.pairs import project

Place = tuple[int, int, int]
# Kernels that compare pairs of tokens: all of these are computed, under a mask. The others mix the
# tokens of a group first, and are given those of one group after the other.
PAIRWISE = ("SoftmaxKernel", "CappedKernel", "LinearKernel", "CosformerKernel")
# Axes on which the tokens of a group are equal.
FIXED = {
    "joint": (),
    "space": (0,),
    "time": (1, 2),
    "width": (0, 1),
    "height": (0, 2),
    "causal_time": (1, 2),
    "causal_joint": (),
}


def places(grid: Place) -> list[Place]:
    return list(product(*(range(n) for n in grid)))


def same_window(a: Place, b: Place, size: Place, shift: Place, grid: Place) -> bool:
    """Whether two tokens lie between the same borders, which are at shift + k size on each axis."""
    for x, y, length, first, n in zip(a, b, size, shift, grid, strict=True):
        if length < n and (x - first) // length != (y - first) // length:
            return False
    return True


def sees(spec: dict, a: Place, b: Place, grid: Place) -> bool:
    """Whether token a attends to token b."""
    kind = spec["type"]
    if kind == "window":
        return same_window(a, b, spec["size"], spec.get("shift", (0, 0, 0)), grid)
    if kind == "strided":
        return not any(x % 2 for x in b)
    if kind == "local":
        sides = [max(n // 2, 1) for n in grid[1:]]
        offsets = (y - x for x, y in zip(a[1:], b[1:], strict=True))
        return all(-(n // 2) <= x < n - n // 2 for x, n in zip(offsets, sides, strict=True))
    if kind.startswith("causal") and not 0 <= a[0] - b[0] < spec.get("past", a[0] + 1):
        return False
    return all(a[axis] == b[axis] for axis in FIXED[kind])


def sequence(spec: dict, a: Place, grid: Place) -> list[Place | None]:
    """Group of a token in the order of its sequence; None is padding."""
    kind = spec["type"]
    if kind in FIXED:
        return [b for b in places(grid) if all(a[axis] == b[axis] for axis in FIXED[kind])]
    if kind in ("local", "strided"):
        return [b for b in places(grid) if kind == "strided" or a[1:] == b[1:]]
    axes = []
    for x, size, shift, n in zip(a, spec["size"], spec.get("shift", (0, 0, 0)), grid, strict=True):
        shift, size = (shift, size) if size < n else (0, n)
        padded = -(-n // size) * size  # both ends of an axis are rolled together
        first = (x - shift) % padded // size * size
        axes.append([(first + i + shift) % padded for i in range(size)])
    inside = (all(x < n for x, n in zip(b, grid, strict=True)) for b in product(*axes))
    return [b if keep else None for b, keep in zip(product(*axes), inside, strict=True)]


def keys_of(spec: dict, a: Place, grid: Place) -> list[Place | None]:
    """Keys of the group of a token in their order."""
    if spec["type"] == "strided":
        return [b for b in places(grid) if not any(x % 2 for x in b)]
    if spec["type"] != "local":
        return sequence(spec, a, grid)
    sides = [max(n // 2, 1) for n in grid[1:]]
    found = []
    for t, i, j in places((grid[0], *sides)):
        h, w = a[1] + i - sides[0] // 2, a[2] + j - sides[1] // 2
        found.append((t, h, w) if 0 <= h < grid[1] and 0 <= w < grid[2] else None)
    return found


def spec_of(pattern: object) -> dict:
    """Specification from which a pattern was built."""
    for name, row in PATTERNS.items():
        if row == pattern:
            return {"type": name}
    if isinstance(pattern, CausalPattern):
        name = "causal_time" if pattern.groups else "causal_joint"
        return {"type": name} if pattern.past is None else {"type": name, "past": pattern.past}
    return {"type": "window", "size": pattern.size, "shift": pattern.shift}


def cached(function: Callable) -> Callable:
    """Remember the results for a pattern, by name or specification, and a grid."""
    found = {}

    def call(pattern: str | dict, grid: Place) -> Any:
        spec = {"type": pattern} if isinstance(pattern, str) else pattern
        key = str(sorted(spec.items())), tuple(grid)
        if key not in found:
            found[key] = function(spec, tuple(grid))
        return found[key]

    return call


@cached
def allowed(spec: dict, grid: Place) -> Tensor:
    """Mask (N, N): whether the token of a row attends to that of a column."""
    return torch.tensor([[sees(spec, a, b, grid) for b in places(grid)] for a in places(grid)])


@cached
def groups_of(spec: dict, grid: Place) -> list[tuple[list, list]]:
    """Queries and keys of each group in their order, as numbers of tokens; None is padding."""
    number = {place: i for i, place in enumerate(places(grid))}
    found = {}
    for a in places(grid):
        queries, keys = sequence(spec, a, grid), keys_of(spec, a, grid)
        found[str(queries)] = list(map(number.get, queries)), list(map(number.get, keys))
    return list(found.values())


def weigh(
    kernel: torch.nn.Module, q: Tensor, k: Tensor, mask: Tensor, gaps: Tensor | float = 0.0
) -> Tensor:
    """Weights (..., N, N') of mapped queries and keys; gaps are differences of places over M."""
    name, scores = type(kernel).__name__, q @ k.transpose(-1, -2)
    if name in ("SoftmaxKernel", "CappedKernel"):
        scores = scores * q.shape[-1] ** -0.5
        if name == "CappedKernel":
            scores = (scores / kernel.cap).tanh() * kernel.cap
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)
    if name == "CosformerKernel":
        scores = scores * torch.as_tensor(math.pi / 2 * gaps).cos()
    scores = scores.masked_fill(~mask, 0.0)
    total = scores.sum(-1, keepdim=True)
    return scores / (total + 1e-6 if name == "LinearKernel" else total.clamp_min(1e-6))


def masked_attention(
    attn: Attention, tokens: Tensor, mask: Tensor, heads: slice = slice(None)
) -> Tensor:
    """All pairs of tokens (B, N, D) under a mask (N, N), before the output projection."""
    qkv = attn.qkv(tokens).unflatten(-1, (3, attn.num_heads, -1)).permute(2, 0, 3, 1, 4)
    q, k, v = qkv.unbind(0)
    if type(attn.kernel).__name__ == "LinearKernel":
        q, k = (x.relu() + x.shape[-1] ** -0.5 for x in (q, k))
    return (weigh(attn.kernel, q, k, mask) @ v)[:, heads].transpose(1, 2).flatten(2)


def attend(
    attn: Attention, grid: Tensor, cls: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Updates of tokens (B, T, H, W, D) and class tokens (B, C, D), as ``Attention.forward``.

    Queries, keys and values are those of ``Attention.project``.
    """
    size = tuple(grid.shape[1:4])
    qkv, cls_qkv = project(attn, grid, cls)
    qkv = [x.flatten(1, 3).transpose(1, 2) for x in qkv]  # (B, n, N, d)
    count = 0
    if cls_qkv is not None:  # the class tokens come first
        count = cls_qkv[0].shape[1]
        own = [x.transpose(1, 2) for x in cls_qkv]
        qkv = [torch.cat([a, b], 2) for a, b in zip(own, qkv, strict=True)]
    role, outs = "skip" if cls_qkv is None else attn.cls, []
    for i, pattern in enumerate(attn.patterns):
        part = [x.chunk(len(attn.patterns), 1)[i] for x in qkv]
        outs.append(_by_pattern(attn.kernel, spec_of(pattern), role, size, part, count))
    out = attn.proj(torch.cat(outs, 1).transpose(1, 2).flatten(2))  # the average before the output
    return out[:, count:].unflatten(1, size), None if cls_qkv is None else out[:, :count]


def _by_pattern(
    kernel: torch.nn.Module, spec: dict, role: str, size: Place, qkv: list[Tensor], first: int
) -> Tensor:
    """Attend under one pattern; queries, keys and values (B, n, N, d), class tokens first.

    ``first`` is the number of the first token of the grid.
    """
    mask, groups = allowed(spec, size), groups_of(spec, size)
    assert sorted(n for queries, _ in groups for n in queries if n is not None) == list(
        range(len(mask))
    )
    mask = F.pad(mask, (first, 0, first, 0), value=True)
    joins = [*range(first)] if role == "mean" else []
    out, copies = torch.empty_like(qkv[2]), []
    for queries, keys in groups:
        rows = [*joins, *(first + n for n in queries if n is not None)]
        if type(kernel).__name__ in PAIRWISE:
            visible = mask[rows].clone()
            # A copy of the class token attends to whatever the tokens of its group attend to.
            visible[: len(joins)] = visible[len(joins) :].any(0)
            at = torch.arange(len(mask), dtype=torch.float64)  # in the sequence
            for place, n in enumerate(queries, start=len(joins)):
                if n is not None:
                    at[first + n] = place
            gaps = (at[rows][:, None] - at) / (len(joins) + len(queries))
            update = weigh(kernel, qkv[0][:, :, rows], qkv[1], visible, gaps) @ qkv[2]
        else:
            q = pick(qkv[0], joins, queries, first)
            k, v = (pick(x, [*range(first)], keys, first) for x in qkv[1:])
            inside = torch.tensor([True] * first + [n is not None for n in keys])
            update = kernel(q, k, v, None if inside.all() else inside[None, None, None])
            is_token = torch.tensor([True] * len(joins) + [n is not None for n in queries])
            update = update[:, :, is_token]
        out[:, :, rows[len(joins) :]] = update[:, :, len(joins) :]
        copies.append(update[:, :, : len(joins)])
    if role == "mean":
        out[:, :, :first] = torch.stack(copies).mean(0)
    if role == "global":
        q, k, v = qkv[0][:, :, :first], *qkv[1:]
        everyone = torch.ones(first, len(mask), dtype=torch.bool)
        pairwise = type(kernel).__name__ in PAIRWISE
        out[:, :, :first] = weigh(kernel, q, k, everyone) @ v if pairwise else kernel(q, k, v)
    return out


def pick(x: Tensor, before: list[int], numbers: list[int | None], first: int) -> Tensor:
    """Tokens in the order of a sequence, with zeros as padding."""
    last = x.shape[2]
    return F.pad(x, (0, 0, 0, 1))[
        :, :, [*before, *(last if n is None else first + n for n in numbers)]
    ]
