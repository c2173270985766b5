"""Transformer encoder: class token, positions, blocks and final norm."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.block import SubLayer, TransformerBlock
from mmvidformer.layers.embed import PositionEmbedding


class Encoder(nn.Module):
    """A transformer encoder on a grid of tokens.

    Attributes:
        cls_only: Whether to return None for the grid and to compute only what the class token needs
            in the last block. ``models.inference`` sets it if nothing reads the grid.

    Args:
        dim: Token width D.
        depth: Number of blocks.
        num_heads: Number of attention heads.
        sublayers: Attention sub-layers of each block.
        positions: Position embedding.
        cls: Whether to add a learned class token.
        drop: Dropout rate of positions, attention output and MLP.
        drop_path: Stochastic-depth rate of the last block; it grows linearly from 0.
        with_cp: Whether to recompute each block in the backward pass instead of keeping its
            activations.
        block: Further arguments of ``TransformerBlock`` (``mlp_ratio``, ``act``, ...).
    """

    def __init__(
        self,
        dim: int,
        depth: int,
        num_heads: int,
        sublayers: Sequence[SubLayer],
        positions: PositionEmbedding,
        cls: bool = False,
        drop: float = 0.0,
        drop_path: float = 0.0,
        with_cp: bool = False,
        block: Mapping | None = None,
    ) -> None:
        super().__init__()
        self.with_cp = with_cp
        self.cls_only = False
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if cls else None
        self.pos_embed = positions
        self.pos_drop = nn.Dropout(drop)
        options = {"drop": drop, "recompute_act": not with_cp, **(block or {})}
        self.blocks = nn.ModuleList(
            TransformerBlock(
                dim, num_heads, sublayers, drop_path=drop_path * i / max(depth - 1, 1), **options
            )
            for i in range(depth)
        )
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, grid: Tensor, clip_rows: int = 1) -> tuple[Tensor | None, Tensor | None]:
        """Encode and normalize.

        Args:
            grid: Tokens (B, T, H, W, D).
            clip_rows: Number of batch rows that share a stochastic-depth draw (see ``DropPath``).

        Returns:
            Normalized grid (None with ``cls_only``) and class token (B, 1, D) or None.
        """
        out, cls = self.run_blocks(grid, clip_rows)
        out = None if out is None else self.norm(out)
        return out, None if cls is None else self.norm(cls)

    def run_blocks(self, grid: Tensor, clip_rows: int = 1) -> tuple[Tensor | None, Tensor | None]:
        """Encode without the final norm; arguments and shapes as in ``forward``."""
        cls = None if self.cls_token is None else self.cls_token.expand(grid.shape[0], -1, -1)
        grid, cls = self.pos_embed(grid, cls)
        grid = self.pos_drop(grid)
        cls = None if cls is None else self.pos_drop(cls)
        for i, block in enumerate(self.blocks, start=1):
            cls_only = self.cls_only and i == len(self.blocks)
            if self.with_cp and torch.is_grad_enabled():
                grid, cls = checkpoint(block, grid, cls, clip_rows, cls_only, use_reentrant=False)
            else:
                grid, cls = block(grid, cls, clip_rows, cls_only)
        return grid, cls
