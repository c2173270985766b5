"""Transformer encoder: class token, positions, blocks and final norm."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.block import SubLayer, TransformerBlock
from mmvidformer.layers.embed import PositionEmbedding
from mmvidformer.layers.norm import build_norm
from mmvidformer.layers.patterns import Grid
from mmvidformer.layers.stream import StreamState
from mmvidformer.lookup import look_up

Tokens = tuple[Tensor | None, Tensor | None]  # grid and class token
Outputs = list[Tokens] | None  # tokens after each block, if they are wanted


class Encoder(nn.Module):
    """A transformer encoder on a grid of tokens.

    Attributes:
        passes_grid: Whether the grid is read by others; otherwise ``cls_only`` may be set.
        cls_only: Whether to return None for the grid and to compute only what the class token needs
            in the last block. ``models.inference`` sets it if nothing reads the grid.
        obstacles: What keeps the encoder from running frame by frame, and what to use instead.

    Args:
        dim: Token width D.
        depth: Number of blocks.
        num_heads: Number of attention heads.
        blocks: Attention sub-layers of a block. With several entries, the blocks take them in turn.
        positions: Position embedding.
        cls: Whether to add a learned class token.
        frames: ``'together'``: the tokens of a clip are encoded together. ``'pool'``: each frame on
            its own, with a class token of its own; returns one token per frame, the class token or
            the mean, both normalized. ``'average'``: likewise; returns the mean over the frames,
            normalized.
        in_dim: Width of the input; if it is not D, a linear layer comes first. Default: D.
        drop: Dropout rate of positions, attention output and MLP.
        drop_path: Stochastic-depth rate of the last block; it grows linearly from 0.
        with_cp: Whether to recompute each block in the backward pass instead of keeping its
            activations.
        norm: Norm of the blocks and of the output (see ``TransformerBlock``).
        block: Further arguments of ``TransformerBlock`` (``mlp_ratio``, ``act``, ...).

    Raises:
        KeyError: If ``frames`` is unknown.
    """

    def __init__(
        self,
        dim: int,
        depth: int,
        num_heads: int,
        blocks: Sequence[Sequence[SubLayer]],
        positions: PositionEmbedding,
        cls: bool = False,
        frames: str = "together",
        in_dim: int | None = None,
        drop: float = 0.0,
        drop_path: float = 0.0,
        with_cp: bool = False,
        norm: str | Mapping = "layer",
        block: Mapping | None = None,
    ) -> None:
        super().__init__()
        self.frames = frames
        self.with_cp = with_cp
        self.passes_grid = False
        self.cls_only = False
        self.encode, self.out_grid = look_up(FRAMES, frames, "value of frames")
        self.proj = nn.Identity() if in_dim in (None, dim) else nn.Linear(in_dim, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if cls else None
        self.pos_embed = positions
        self.pos_drop = nn.Dropout(drop)
        options = {"drop": drop, "norm": norm, "recompute": not with_cp, **(block or {})}
        rates = [drop_path * i / max(depth - 1, 1) for i in range(depth)]
        self.blocks = nn.ModuleList(
            TransformerBlock(dim, num_heads, blocks[i % len(blocks)], drop_path=rate, **options)
            for i, rate in enumerate(rates)
        )
        self.norm = build_norm(norm, dim)
        self.obstacles = list(self._find_obstacles())

    def forward(
        self, grid: Tensor, state: StreamState | None = None, outputs: Outputs = None
    ) -> Tokens:
        """Encode and normalize.

        Args:
            grid: Tokens (B, T, H, W, D').
            state: State of a stream that the grid is a part of.
            outputs: List to which the tokens after each block are appended, not normalized. Single
                frames are clips of their own.

        Returns:
            Normalized grid (None with ``cls_only``) and class token (B, 1, D) or None. The grid is
            (B, T, H, W, D); of single frames it is (B, T, 1, 1, D) if they are pooled, and
            (B, 1, H, W, D) if they are averaged.
        """
        return self.encode(self, self.proj(grid), state, outputs)

    def run_blocks(
        self,
        grid: Tensor,
        clip_rows: int = 1,
        state: StreamState | None = None,
        outputs: Outputs = None,
    ) -> Tokens:
        """Encode without the final norm.

        Args:
            grid: Tokens (B, T, H, W, D).
            clip_rows: Number of batch rows that share a stochastic-depth draw (see ``DropPath``).
            state: State of a stream that the grid is a part of.
            outputs: See ``forward``.

        Returns:
            Grid and class token, in the shapes of ``forward``.
        """
        cls = None if self.cls_token is None else self.cls_token.expand(grid.shape[0], -1, -1)
        grid, cls = self.pos_embed(grid, cls, not self.obstacles, state)
        grid = self.pos_drop(grid)
        cls = None if cls is None else self.pos_drop(cls)
        for i, block in enumerate(self.blocks, start=1):
            cls_only = self.cls_only and i == len(self.blocks)
            if self.with_cp and torch.is_grad_enabled() and state is None:
                grid, cls = checkpoint(block, grid, cls, clip_rows, cls_only, use_reentrant=False)
            else:
                grid, cls = block(grid, cls, clip_rows, cls_only, state)
            if outputs is not None:
                outputs.append((grid, cls))
        return grid, cls

    def _find_obstacles(self) -> Iterator[str]:
        if self.frames == "average":
            yield "frames='average' is a mean over time; use frames='pool'"
        if self.frames != "together":  # no token sees another frame
            return
        if self.cls_token is not None:
            yield "the class token sees all frames; use cls=None"
        for name, part in self.named_modules():
            if isinstance(part, Attention):
                yield from (f"{name.removesuffix('.attn')}: {text}" for text in part.obstacles)

    def normalize(self, tokens: Tokens) -> Tokens:
        """Apply the final norm to grid and class token."""
        grid, cls = (None if x is None else self.norm(x) for x in tokens)
        return grid, cls


def pool_tokens(grid: Tensor | None, cls: Tensor | None) -> Tensor:
    """Return the class token (B, 1, D), or else the mean of the grid, as features (B, D)."""
    if cls is not None:
        return cls[:, 0]
    assert grid is not None, "an encoder returns a grid if it has no class token"
    return grid.mean(dim=(1, 2, 3))


def _together(
    encoder: Encoder, grid: Tensor, state: StreamState | None, outputs: Outputs
) -> Tokens:
    return encoder.normalize(encoder.run_blocks(grid, 1, state, outputs))


def _pool_frames(
    encoder: Encoder, grid: Tensor, state: StreamState | None, outputs: Outputs
) -> Tokens:
    batch, frames = grid.shape[:2]
    tokens = encoder.run_blocks(grid.flatten(0, 1)[:, None], frames, None, outputs)
    pooled = pool_tokens(*encoder.normalize(tokens))
    return pooled.unflatten(0, (batch, frames))[:, :, None, None], None


def _average_frames(
    encoder: Encoder, grid: Tensor, state: StreamState | None, outputs: Outputs
) -> Tokens:
    frames = grid.shape[:2]
    tokens = encoder.run_blocks(grid.flatten(0, 1)[:, None], outputs=outputs)
    out, cls = (None if x is None else x.unflatten(0, frames).mean(1) for x in tokens)
    return encoder.normalize((out, cls))


# What an encoder does with the frames, and the grid (T, H, W) that it returns.
FRAMES: dict[str, tuple[Callable[..., Tokens], Callable[[Grid], Grid]]] = {
    "together": (_together, lambda grid: grid),
    "pool": (_pool_frames, lambda grid: (grid[0], 1, 1)),
    "average": (_average_frames, lambda grid: (1, *grid[1:])),
}
