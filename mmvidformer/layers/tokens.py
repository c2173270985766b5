"""Tokens as one tensor, (B, P + T H W, D), and what travels with them through the blocks."""

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from mmvidformer.layers.stream import StreamState

Size = tuple[int, int, int]
Tokens = tuple[Tensor | None, Tensor | None]  # grid and class token
Outputs = list[Tokens] | None  # tokens after each block, if they are wanted


class Grid(NamedTuple):
    """The order of the tokens of a clip: P class tokens and registers, then T x H x W places.

    Attributes:
        t: Number T of places in time.
        h: Number H of rows.
        w: Number W of columns.
        prefix: Number P of tokens without a place.
    """

    t: int
    h: int
    w: int
    prefix: int = 0

    @property
    def size(self) -> Size:
        """Size (T, H, W) without the prefix."""
        return self.t, self.h, self.w

    @property
    def num_tokens(self) -> int:
        """Number P + T H W of the tokens."""
        return self.prefix + self.t * self.h * self.w

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Split (B, P + T H W, ...) into prefix (B, P, ...) and places (B, T, H, W, ...)."""
        if not self.prefix:
            return tokens[:, :0], tokens.unflatten(1, self.size)
        prefix, places = tokens.split([self.prefix, self.num_tokens - self.prefix], dim=1)
        return prefix, places.unflatten(1, self.size)

    def join(self, prefix: Tensor, places: Tensor) -> Tensor:
        """Join prefix (B, P, ...) and places (B, T, H, W, ...) to (B, P + T H W, ...)."""
        places = places.flatten(1, 3)
        return torch.cat([prefix, places], dim=1) if self.prefix else places


class Context(NamedTuple):
    """What travels with the tokens of a batch through the blocks of an encoder.

    Attributes:
        grid: Their order.
        rope: Table of rotary positions, (1 or B, P + T H W, 2 d) (``RotaryEmbedding.tokens``).
        state: State of a stream that the tokens are a part of.
        clip_rows: Number of consecutive batch rows of each clip, (clips,), the frames of which
            share a draw of stochastic depth (``DropPath``). Default: each row is a clip.
        prefix_only: Whether only the prefix is read afterwards. This needs kernels that attend for
            ``some_queries``.
    """

    grid: Grid
    rope: Tensor | None = None
    state: StreamState | None = None
    clip_rows: Tensor | None = None
    prefix_only: bool = False

    def without_prefix(self) -> "Context":
        """Return that of the places alone."""
        rope = None if self.rope is None else self.rope[:, self.grid.prefix :]
        return self._replace(grid=self.grid._replace(prefix=0), rope=rope)

    def take_rows(self, rows: Tensor | None) -> "Context":
        """Return that of some rows (K,) of the batch. Default: of all."""
        if rows is None or self.rope is None or len(self.rope) == 1:
            return self
        return self._replace(rope=self.rope[rows])


class Places(NamedTuple):
    """Some places of the frames of a clip, the same in all frames.

    Attributes:
        numbers: Their numbers in the H W of a frame (B, N).
        size: Height H and width W of the whole grid.
    """

    numbers: Tensor
    size: tuple[int, int]

    def take(self, grid: Tensor) -> Tensor:
        """Take tokens (B, T, 1, N, D) of a grid (B, T, H, W, D), or of one for all clips."""
        return grid.flatten(2, 3).take_along_dim(self.numbers[:, None, :, None], 2)[:, :, None]

    def put(self, tokens: Tensor, others: Tensor) -> Tensor:
        """Put tokens (B, T, 1, N, D) into a grid (B, T, H, W, D) of another token."""
        whole = others.to(tokens).flatten().repeat(*tokens.shape[:2], prod(self.size), 1)
        index = self.numbers[:, None, :, None].expand_as(tokens[:, :, 0])
        return whole.scatter_(2, index, tokens[:, :, 0]).unflatten(2, self.size)

    def mask(self) -> Tensor:
        """Return whether each place of the whole grid is one of them, (B, H, W)."""
        nowhere = self.numbers.new_zeros(len(self.numbers), prod(self.size), dtype=torch.bool)
        return nowhere.scatter(1, self.numbers, True).unflatten(1, self.size)


def pool_tokens(grid: Tensor | None, cls: Tensor | None) -> Tensor:
    """Return the class token, first of (B, C, D), or else the mean of the grid, (B, D)."""
    if cls is not None:
        return cls[:, 0]
    assert grid is not None, "an encoder returns a grid if it has no class token"
    return grid.mean(dim=(1, 2, 3))
