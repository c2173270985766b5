"""Operations of key maps on tensors, with their inverses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt, prod

import torch
from torch import Tensor

from mmvidformer.errors import UserError

Grid = tuple[int, int, int]
# Frames, rows and columns of the clips that all published ViViT weights were trained on.
PUBLISHED_CLIP: Grid = (32, 224, 224)


@dataclass(frozen=True)
class Op:
    """Operation on the tensors of a row, and its inverse."""

    forward: Callable[..., tuple[Tensor, ...]]
    backward: Callable[..., tuple[Tensor, ...]]


KEEP = Op(lambda x: (x,), lambda x: (x,))
# A table over time (1, T, D), and ours (1, T, 1, 1, D).
TIME_TABLE = Op(lambda x: (x[:, :, None, None],), lambda x: (x[:, :, 0, 0],))
ADD_TIME = Op(lambda kernel: (kernel[:, :, None],), lambda kernel: (kernel[:, :, 0],))
# Weights of norms that are stored less one.
ADD_ONE = Op(lambda weight: (weight + 1,), lambda weight: (weight - 1,))
# Queries, and keys and values, of ``nn.MultiheadAttention``.
IN_PROJ = Op(lambda x: x.split([len(x) // 3, 2 * len(x) // 3]), lambda q, kv: (torch.cat([q, kv]),))


def stack(count: int) -> Op:
    """Operation that concatenates ``count`` tensors of one shape along their first axis."""
    return Op(lambda *parts: (torch.cat(parts),), lambda whole: whole.chunk(count))


def divide(clip: Grid, tubelet: Sequence[int]) -> Grid:
    """Return the grid of a clip of (frames, rows, columns) for a tubelet of that many."""
    (frames, height, width), (t, h, w) = clip, tubelet
    return frames // t, height // h, width // w


def grid_of(
    count: int, known: Grid | None = None, tubelet: Sequence[int] = (), clip: Grid = PUBLISHED_CLIP
) -> Grid:
    """Return the grid (T, H, W) of a position table of ``count`` vectors.

    With the frames, rows and columns of a tubelet, the table is that of a whole clip, by default of
    ``clip``; otherwise it is that of a single frame, by default a square.

    Raises:
        UserError: If the grid does not have ``count`` tokens, or must be given.
    """
    side = isqrt(count)
    if tubelet:
        grid = known or divide(clip, tubelet)
        hint = "" if known else f" of clips of {clip}; give the grid T,H,W"
        wrong = f"does not fit the grid {grid}{hint}"
    else:
        grid = (1, *known[1:]) if known else (1, side, side)
        wanted = f"frame of grid {known}" if known else "square frame; give the grid T,H,W"
        wrong = f"fits no {wanted}"
    if prod(grid) != count:
        raise UserError(f"a position table of {count} vectors {wrong}")
    return grid


def positions(
    grid: Grid | None = None, tubelet: Sequence[int] = (), cls: bool = True, slot: bool = True
) -> Op:
    """Operation that splits a flat table (1, [1 +] T*H*W, D) into a grid (``grid_of``) and a token.

    The token is the position of the class token, if the model has one (``cls``): the first vector,
    or zero if the table has no ``slot`` for it.
    """

    def split(table: Tensor) -> tuple[Tensor, ...]:
        tokens = table[:, int(slot) :]
        tokens = tokens.unflatten(1, grid_of(tokens.shape[1], grid, tubelet))
        if not cls:
            return (tokens,)
        return tokens, table[:, :1] if slot else torch.zeros_like(table[:, :1])

    def join(tokens: Tensor, *token: Tensor) -> tuple[Tensor, ...]:
        return (torch.cat([*token, tokens.flatten(1, 3)], dim=1),)

    return Op(split, join)
