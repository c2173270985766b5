"""How much the tokens of a clip change, over parts of time and a coarse grid."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError


class Block(NamedTuple):
    """Absolute differences of successive places of ``GRID``, averaged over time and places."""

    parts: int  # of time
    grid: int  # places of a side
    has_channels: bool  # or their mean


GRID = 8  # places of a side, over each of which tokens are averaged before their differences
BLOCKS = {"fine": Block(3, 8, True), "coarse": Block(3, 4, True), "amount": Block(5, 8, False)}


def count_changes(width: int) -> int:
    """Return the number of values of ``measure_changes`` for tokens of a width."""
    return sum(_shape(block, width).numel() for block in BLOCKS.values())


def measure_changes(tokens: Tensor) -> Tensor:
    """Map tokens (N, T, H, W, D), T > 1, to the values of all ``BLOCKS`` in turn (N, C).

    Raises:
        UserError: If there is no time between tokens.
    """
    if tokens.shape[1] < 2:
        raise UserError(f"changes need two moments or more, got tokens {tuple(tokens.shape)}")
    channels_first = tokens.permute(0, 4, 1, 2, 3)  # (N, D, T, H, W)
    places = F.adaptive_avg_pool3d(channels_first, (tokens.shape[1], GRID, GRID))
    differences = places.diff(dim=2).abs()  # (N, D, T - 1, GRID, GRID)
    values = []
    for block in BLOCKS.values():
        source = differences if block.has_channels else differences.mean(dim=1, keepdim=True)
        pooled = F.adaptive_avg_pool3d(source, (block.parts, block.grid, block.grid))
        values.append(pooled.permute(0, 2, 3, 4, 1).flatten(1))
    return torch.cat(values, dim=1)


def split_changes(changes: Tensor, width: int) -> dict[str, Tensor]:
    """Split values (N, C), of tokens of a width, into blocks (N, parts, grid, grid, D or 1)."""
    shapes = [_shape(block, width) for block in BLOCKS.values()]
    pieces = changes.split([shape.numel() for shape in shapes], dim=1)
    blocks = zip(BLOCKS, pieces, shapes, strict=True)
    return {name: piece.unflatten(1, shape) for name, piece, shape in blocks}


def mirror_changes(changes: Tensor, width: int) -> Tensor:
    """Exchange left and right: about the values of the mirrored clip."""
    blocks = split_changes(changes, width).values()
    return torch.cat([block.flip(3).flatten(1) for block in blocks], dim=1)


def _shape(block: Block, width: int) -> torch.Size:
    channels = width if block.has_channels else 1
    return torch.Size((block.parts, block.grid, block.grid, channels))
