"""Class token, positions, blocks and the final norm."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers.block import SubLayer, TransformerBlock
from mmvidformer.layers.drop import drop_path_ramp
from mmvidformer.layers.embed import PositionEmbedding


class Encoder(nn.Module):
    """A transformer on a grid of tokens.

    Attributes:
        cls_only: Give the class token alone, None for the grid, and compute in the last block
            only what it needs; ``models.inference`` sets this where the grid is not read.

    Args:
        dim: Token width D.
        depth: Blocks.
        num_heads: Heads.
        sublayers: Attention sublayers of every block.
        positions: The position embedding, already built.
        cls: Prepend a learned class token.
        drop: Dropout on positions, attention output and MLP.
        drop_path: Stochastic-depth rate of the last block; it grows linearly from 0.
        with_cp: Recompute each block in the backward pass instead of keeping its activations.
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
        block: dict | None = None,
    ) -> None:
        super().__init__()
        self.with_cp = with_cp
        self.cls_only = False
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if cls else None
        self.pos_embed = positions
        self.pos_drop = nn.Dropout(drop)
        self.blocks = nn.ModuleList(
            TransformerBlock(dim, num_heads, sublayers, drop=drop, drop_path=rate, **(block or {}))
            for rate in drop_path_ramp(drop_path, depth)
        )
        self.norm = nn.LayerNorm(dim, eps=(block or {}).get("norm_eps", 1e-6))

    def forward(self, grid: Tensor, clip_rows: int = 1) -> tuple[Tensor | None, Tensor | None]:
        """Encode and normalise.

        Args:
            grid: Tokens (B, T, H, W, D).
            clip_rows: Rows of the batch that share a stochastic-depth draw (see ``DropPath``).

        Returns:
            Normalised grid (None with ``cls_only``) and class token (B, 1, D) or None.
        """
        grid, cls = (None if x is None else self.norm(x) for x in self.run_blocks(grid, clip_rows))
        return grid, cls

    def run_blocks(self, grid: Tensor, clip_rows: int = 1) -> tuple[Tensor | None, Tensor | None]:
        """Encode without the final norm; arguments and shapes as of ``forward``."""
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
