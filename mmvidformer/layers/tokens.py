"""Tokens as one tensor, (B, P + T H W, D), and what travels with them through the blocks."""

from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmvidformer.layers.stream import StreamState

Size = tuple[int, int, int]


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
    def num_places(self) -> int:
        """Number T H W of the places."""
        return self.t * self.h * self.w

    @property
    def num_tokens(self) -> int:
        """Number P + T H W of the tokens."""
        return self.prefix + self.num_places

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Split (B, P + T H W, ...) into prefix (B, P, ...) and places (B, T, H, W, ...)."""
        t, h, w, prefix = self
        if not prefix:
            return tokens[:, :0], torch.unflatten(tokens, 1, (t, h, w))
        first, places = tokens.split_with_sizes([prefix, t * h * w], dim=1)
        return first, torch.unflatten(places, 1, (t, h, w))

    def join(self, prefix: Tensor, places: Tensor) -> Tensor:
        """Join prefix (B, P, ...) and places (B, T, H, W, ...) to (B, P + T H W, ...)."""
        places = places.flatten(1, 3)
        return torch.cat([prefix, places], dim=1) if self.prefix else places


class Context(NamedTuple):
    """What travels with the tokens of a batch through the blocks of an encoder.

    Attributes:
        grid: Their order.
        kept: Where they are, if others of the clip were left out.
        counts: How many equal tokens of the clip each place stands for, (B, T, H, W); 0: it is
            padding. If no token was left out, the others of a frame count as often as the
            frame. Default: one.
        rope: Table of rotary positions, (1 or B, P + T H W, 2 d) (``layers.rotary.with_prefix``).
        state: State of a stream that the tokens are a part of.
        clip_rows: Number of consecutive batch rows of each clip, (clips,), if the rows are frames.
            Those of a clip share a draw of stochastic depth (``DropPath``). Default: each row is a
            clip.
        prefix_only: Whether only the prefix is read afterwards. Encoders compute all, but for a
            pass (``models.fast.prefix_only``), after which there are no places, and T is 0.
    """

    grid: Grid
    kept: "Places | None" = None
    counts: Tensor | None = None
    rope: Tensor | None = None
    state: StreamState | None = None
    clip_rows: Tensor | None = None
    prefix_only: bool = False

    def without_prefix(self) -> "Context":
        """Return that of the places alone."""
        rope = None if self.rope is None else self.rope[:, self.grid.prefix :]
        return self._replace(grid=self.grid._replace(prefix=0), rope=rope)


class Tokens(NamedTuple):
    """Tokens of clips, and what belongs to them: what encoders take and return.

    Attributes:
        tensor: The tokens, (B, P + T H W, D).
        context: Their order, and what else belongs to them.
    """

    tensor: Tensor
    context: Context

    @classmethod
    def of(cls, places: Tensor, **context: Any) -> "Tokens":
        """Make tokens of places (B, T, H, W, D), without a prefix; with fields of the context."""
        return cls(places.flatten(1, 3), Context(Grid(*places.shape[1:4]), **context))

    @property
    def prefix(self) -> Tensor:
        """Class tokens and registers, (B, P, D)."""
        return self.tensor[:, : self.context.grid.prefix]

    @property
    def places(self) -> Tensor:
        """Tokens with a place, (B, T, H, W, D)."""
        return self.context.grid.split(self.tensor)[1]


class Places(NamedTuple):
    """Some places of the clips of a batch, as many in each: the same in all frames, or any.

    Attributes:
        numbers: Their numbers (B, N).
        size: Height H and width W of a frame, whose places are numbered, the same in all frames; or
            T, H, W of a clip.
    """

    numbers: Tensor
    size: tuple[int, ...]

    @property
    def in_frames(self) -> bool:
        """Whether they are the same in all frames, so that these are left as frames."""
        return len(self.size) == 2

    def take(self, grid: Tensor) -> Tensor:
        """Take tokens of a grid (B, T, H, W, D), or of one for all clips.

        Returns (B, T, 1, N, D) if the places are those of frames, (B, 1, 1, N, D) if of clips.
        """
        rows = grid.flatten(2, 3) if self.in_frames else grid.flatten(1, 3)[:, None]
        clips, frames, size = rows.shape[:3]
        firsts = torch.arange(0, clips * frames * size, size, device=grid.device)
        index = firsts.view(clips, frames, 1) + self.numbers[:, None]  # copies whole tokens
        taken = rows.flatten(0, 2).index_select(0, index.flatten())
        return taken.unflatten(0, index.shape)[:, :, None]

    def put(self, tokens: Tensor, others: Tensor) -> Tensor:
        """Put what ``take`` returns into a grid (B, T, H, W, D) of another token."""
        whole = others.to(tokens).flatten().repeat(*tokens.shape[:2], prod(self.size), 1)
        index = self.numbers[:, None, :, None].expand_as(tokens[:, :, 0])
        rows = whole.scatter_(2, index, tokens[:, :, 0]).unflatten(2, self.size)
        return rows if self.in_frames else rows[:, 0]

    def mask(self) -> Tensor:
        """Return whether each place is one of them, (B, H, W) or (B, T, H, W)."""
        nowhere = self.numbers.new_zeros(len(self.numbers), prod(self.size), dtype=torch.bool)
        return nowhere.scatter(1, self.numbers, True).unflatten(1, self.size)


def pool_tokens(tokens: Tokens, pool: str) -> Tensor:
    """Return the class token (``'cls'``), or if there is none the mean of the places, (B, D)."""
    if pool == "cls" and tokens.context.grid.prefix:
        return tokens.tensor[:, 0]
    return weighted_mean(tokens.places, tokens.context.counts, dim=(1, 2, 3))


def split_counts(counts: Tensor, kept: Places | None) -> tuple[Tensor, Tensor]:
    """Split the counts of tokens (B, T, H, W) into those within a frame and those of frames.

    The latter is (B, T, 1, 1): how many equal frames there are. Where places are left out, the
    frames are those of the clip.
    """
    frames = counts.amax(dim=(2, 3), keepdim=True)
    if kept is not None:
        return counts, (frames > 0).to(counts)
    return counts / torch.where(frames > 0, frames, 1), frames


def weighted_mean(tokens: Tensor, counts: Tensor | None, dim: int | tuple[int, ...]) -> Tensor:
    """Return the mean of tokens (..., D) over some axes, each counted as often as ``counts`` (...).

    That of tokens that all count 0 times is 0.
    """
    if counts is None:
        return tokens.mean(dim=dim)
    counts = counts[..., None].to(tokens)
    total = counts.sum(dim=dim)
    return (tokens * counts).sum(dim=dim) / torch.where(total == 0, 1, total)


def grid_size(x: Tensor) -> Size:
    """Return the size (T, H, W) of tokens (B, T, H, W, ...)."""
    _, t, h, w = x.shape[:4]
    return t, h, w
