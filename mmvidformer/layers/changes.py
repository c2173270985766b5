"""How much the tokens of a clip change: over parts of time and a coarse grid, and anywhere."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError

GRID = 8  # places of a side, over each of which tokens are averaged before their differences
SHARES = (0.005, 0.03, 0.15, 1.0)  # of places and moments: the means of the largest changes
PARTS = 5  # of moments, sorted by how much changes


class Block(NamedTuple):
    """Absolute differences of successive places of ``GRID``, averaged over time and places."""

    parts: int  # of time
    grid: int  # places of a side
    has_channels: bool  # or their mean


PLACES = {"fine": Block(3, 8, True), "coarse": Block(3, 4, True), "amount": Block(5, 8, False)}
ANYWHERE = ("largest", "turns", "sorted", "moving")


def count_changes(width: int, layers: int = 1) -> int:
    """Return the number of values of ``measure_changes`` for tokens of L layers, of a width."""
    return sum(shape.numel() for shape in _shapes(width, layers).values())


def measure_changes(tokens: Tensor, layers: int = 1) -> Tensor:
    """Map the tokens of L layers (N, T, H, W, L D), T > 1, to values (N, C).

    They are those of ``PLACES``, of the last layer, and then of each layer, without places:

    - ``largest``: the largest absolute differences of a channel, averaged over ``SHARES``;
    - ``turns``: the same of second differences;
    - ``sorted``: lengths of the differences, sorted over places, and then over moments;
    - ``moving``: tokens, and differences, weighted by the squares of these lengths.

    Raises:
        UserError: If there is no time between tokens.
    """
    if tokens.shape[1] < 2:
        raise UserError(f"changes need two moments or more, got tokens {tuple(tokens.shape)}")
    channels_first = tokens.permute(0, 4, 1, 2, 3)  # (N, L D, T, H, W)
    cells = F.adaptive_avg_pool3d(channels_first, (tokens.shape[1], GRID, GRID))
    by_layer = cells.flatten(3).chunk(layers, dim=1)  # (N, D, T, GRID GRID) each
    values = _measure_places(by_layer[-1].diff(dim=2).abs().unflatten(3, (GRID, GRID)))
    for layer in by_layer:
        values += _measure_anywhere(layer)
    return torch.cat(values, dim=1)


def _measure_places(differences: Tensor) -> list[Tensor]:
    """Average differences (N, D, T - 1, GRID, GRID) over parts of time and places."""
    values = []
    for block in PLACES.values():
        source = differences if block.has_channels else differences.mean(dim=1, keepdim=True)
        pooled = F.adaptive_avg_pool3d(source, (block.parts, block.grid, block.grid))
        values.append(pooled.permute(0, 2, 3, 4, 1).flatten(1))
    return values


def _measure_anywhere(cells: Tensor) -> list[Tensor]:
    """Measure ``ANYWHERE`` of cells (N, D, T, GRID GRID)."""
    steps = cells.diff(dim=2)
    differences = steps.abs()
    turns = steps.diff(dim=2).abs() if steps.shape[2] > 1 else torch.zeros_like(steps)
    lengths = torch.linalg.vector_norm(steps, dim=1)  # (N, T - 1, GRID GRID); flat at zero
    over_places = lengths.sort(dim=2, descending=True).values
    over_moments = over_places.sort(dim=1).values.transpose(1, 2)
    weights = lengths.square()[:, None]
    weights = weights / weights.sum(dim=(2, 3), keepdim=True).clamp(min=1e-12)
    middles = (cells[:, :, 1:] + cells[:, :, :-1]) / 2
    moving = [(x * weights).sum(dim=(2, 3)) for x in (middles, differences)]
    return [
        _average_largest(differences),
        _average_largest(turns),
        F.adaptive_avg_pool1d(over_moments, PARTS).flatten(1),
        torch.cat(moving, dim=1),
    ]


def _average_largest(values: Tensor) -> Tensor:
    """Average the ``SHARES`` of the largest values (N, D, T, P) of each channel, (N, shares D)."""
    values = values.flatten(2)
    means = []
    for share in SHARES:
        count = max(1, round(share * values.shape[2]))
        means.append(values.topk(count, dim=2).values.mean(dim=2))
    return torch.cat(means, dim=1)


def split_changes(changes: Tensor, width: int, layers: int = 1) -> dict[str, Tensor]:
    """Split values (N, C), of tokens of L layers of a width, by name.

    Those of ``PLACES`` are (N, parts, grid, grid, D or 1); those of ``ANYWHERE``, whose names end
    with the number of the layer such as in ``'turns 0'``, are (N, values).
    """
    shapes = _shapes(width, layers)
    pieces = changes.split([shape.numel() for shape in shapes.values()], dim=1)
    blocks = zip(shapes, pieces, shapes.values(), strict=True)
    return {name: piece.unflatten(1, shape) for name, piece, shape in blocks}


def group_changes(layers: int) -> dict[str, list[str]]:
    """Return the names of ``split_changes`` that belong together: places, and those of a layer."""
    groups = {"places": [*PLACES]}
    for layer in range(layers):
        groups[f"layer {layer}"] = [f"{name} {layer}" for name in ANYWHERE]
    return groups


def mirror_changes(changes: Tensor, width: int, layers: int = 1) -> Tensor:
    """Exchange left and right: about the values of the mirrored clip."""
    mirrored = []
    for name, block in split_changes(changes, width, layers).items():
        mirrored.append(block.flip(3).flatten(1) if name in PLACES else block)
    return torch.cat(mirrored, dim=1)


def _shapes(width: int, layers: int) -> dict[str, torch.Size]:
    """Return the shape of each block of a clip, by name."""
    shapes = {}
    for name, block in PLACES.items():
        channels = width if block.has_channels else 1
        shapes[name] = torch.Size((block.parts, block.grid, block.grid, channels))
    largest = len(SHARES) * width
    sizes = dict(largest=largest, turns=largest, sorted=PARTS * GRID**2, moving=2 * width)
    for layer in range(layers):
        shapes |= {f"{name} {layer}": torch.Size((sizes[name],)) for name in ANYWHERE}
    return shapes
