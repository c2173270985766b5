"""Blocks and attention on pairs of a grid (B, T, H, W, D) and class tokens (B, P, D), or None."""

from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.layers import Attention, Context, Grid

Pair = tuple[Tensor | None, Tensor | None]
Heads = tuple[Tensor, ...]


def joined(grid: Tensor, cls: Tensor | None = None, role: str = "mean") -> tuple[Tensor, Grid]:
    """Tokens (B, P + T H W, D) of a pair, without a class token to be skipped, and their order."""
    tokens = grid.flatten(1, 3)
    if cls is None or role == "skip":
        return tokens, Grid(*grid.shape[1:4])
    return torch.cat([cls, tokens], dim=1), Grid(*grid.shape[1:4], cls.shape[1])


def split(tokens: Tensor, order: Grid) -> Pair:
    """The pair of tokens."""
    cls, grid = order.split(tokens)
    return grid, cls if order.prefix else None


def run(module: nn.Module, grid: Tensor, cls: Tensor | None = None, *draw: Any, **options) -> Pair:
    """The output of a block or attention; ``options`` are those of the context."""
    tokens, order = joined(grid, cls, getattr(module, "cls", "mean"))
    out = module(tokens, Context(order, **options), *draw)
    return (None, out) if options.get("prefix_only") else split(out, order)


def project(attn: Attention, grid: Tensor, cls: Tensor | None = None) -> tuple[Heads, Heads | None]:
    """Queries, keys and values of the grid and of the class tokens."""
    tokens, order = joined(grid, cls, attn.cls)
    pairs = [order.split(x) for x in attn.project(tokens, Context(order))]
    prefix, places = zip(*pairs, strict=True)
    return places, prefix if order.prefix else None


class OnGrid(nn.Module):
    """A block or attention as a function of a grid."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, grid: Tensor) -> Tensor:
        return run(self.module, grid)[0]
