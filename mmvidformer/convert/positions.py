"""Position tables: from a flat sequence to a grid over time, height and width."""

from collections.abc import Callable, Sequence
from math import isqrt

import torch
from torch import Tensor

from mmvidformer.convert.keymap import Op

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


def positions(grid: Callable[[int], Grid] = frame_grid, cls: bool = True, slot: bool = True) -> Op:
    """Return the operation that splits a flat table (1, [1 +] T*H*W, D) into a grid and a token.

    Args:
        grid: Function from T*H*W to (T, H, W); not needed for the way back.
        cls: Whether the model has a class token, whose position is the second result.
        slot: Whether the first vector is this position, which is zero otherwise.
    """

    def split(table: Tensor) -> tuple[Tensor, ...]:
        tokens = table[:, int(slot) :]
        tokens = tokens.unflatten(1, grid(tokens.shape[1]))
        if not cls:
            return (tokens,)
        return tokens, table[:, :1] if slot else torch.zeros_like(table[:, :1])

    def join(tokens: Tensor, token: Tensor | None = None) -> tuple[Tensor, ...]:
        flat = tokens.flatten(1, 3)
        return (flat if token is None else torch.cat([token, flat], dim=1),)

    return Op(split, join)
