"""Position tables: from a flat sequence to a grid over time, height and width."""

from collections.abc import Sequence
from math import isqrt

import torch
from torch import Tensor

from mmvidformer.convert.keymap import Op, Rule

Grid = tuple[int, int, int]

# Frames, rows and columns of the clips that all published ViViT weights were trained on.
PUBLISHED_CLIP: Grid = (32, 224, 224)


def divide(clip: Grid, tubelet: Sequence[int]) -> Grid:
    """Return the grid of a clip of (frames, rows, columns) for a tubelet of that many."""
    (frames, height, width), (t, h, w) = clip, tubelet
    return frames // t, height // h, width // w


def frame_grid(count: int, given: Grid | None = None) -> Grid:
    """Return the grid (1, H, W) of a table of ``count`` vectors, those of a single frame.

    Raises:
        ValueError: If the count fits neither the given grid nor a square.
    """
    side = isqrt(count)
    height, width = given[1:] if given else (side, side)
    if height * width != count:
        wanted = f"frame of grid {given}" if given else "square frame; give the grid T,H,W"
        raise ValueError(f"a position table of {count} vectors fits no {wanted}")
    return 1, height, width


def clip_grid(count: int, tubelet: Sequence[int], given: Grid | None = None) -> Grid:
    """Return the grid (T, H, W) of a table of ``count`` vectors, those of a whole clip.

    By default it is that of ``PUBLISHED_CLIP`` with tubelets of these frames, rows and columns.

    Raises:
        ValueError: If the grid does not have ``count`` tokens, or must be given.
    """
    grid = given or divide(PUBLISHED_CLIP, tubelet)
    if grid[0] * grid[1] * grid[2] != count:
        hint = "" if given else f" of clips of {PUBLISHED_CLIP}; give the grid T,H,W"
        raise ValueError(f"a position table of {count} vectors does not fit the grid {grid}{hint}")
    return grid


def position_rule(
    source: str, target: str, grid: Grid, cls: bool, slot: bool, axes: str = "thw"
) -> Rule:
    """Return the row that splits a flat table (1, [1 +] T*H*W, D) into a grid and a class token.

    Args:
        source: Name of the table.
        target: Name of this package's position embedding.
        grid: Grid (T, H, W).
        cls: Whether the model has a class token.
        slot: Whether the first vector is its position, which is zero otherwise.
        axes: Axes of this package's table, the end of its name.
    """

    def split(table: Tensor) -> tuple[Tensor, ...]:
        tokens = table[:, int(slot) :].unflatten(1, grid)
        if not cls:
            return (tokens,)
        return tokens, table[:, :1] if slot else torch.zeros_like(table[:, :1])

    def join(tokens: Tensor, token: Tensor | None = None) -> tuple[Tensor, ...]:
        flat = tokens.flatten(1, 3)
        return (flat if token is None else torch.cat([token, flat], dim=1),)

    targets = (f"{target}.{axes}", f"{target}.cls")
    return Rule((source,), targets if cls else targets[:1], Op(split, join))
