"""A transformer block: attention sub-layers and an MLP, each with a residual connection."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.config import SubLayer, read
from mmvidformer.layers.drop import DropPath
from mmvidformer.layers.mlp import MLPS
from mmvidformer.layers.norm import build_norm
from mmvidformer.layers.patterns import grid_size
from mmvidformer.layers.stream import StreamState


class AttentionSubLayer(nn.Module):
    """Pre-norm attention, without the residual connection.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads.
        sublayer: Description of the attention.
        drop_path: Stochastic depth of the sub-layer.
        norm: Norm (``layers.norm``).
        **options: ``attn_drop`` and ``proj_drop`` of ``Attention``.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        sublayer: SubLayer,
        drop_path: DropPath,
        norm: str | Mapping = "layer",
        **options: Any,
    ) -> None:
        super().__init__()
        self.norm = build_norm(norm, dim)
        self.attn = Attention(
            dim,
            num_heads,
            sublayer.patterns,
            sublayer.cls or "mean",
            sublayer.kernel,
            sublayer.fixation,
            sublayer.shifts,
            sublayer.shift_last,
            **options,
        )
        self.drop_path = drop_path
        self.fc = nn.Linear(dim, dim) if sublayer.fc else nn.Identity()
        self.zero_init = sublayer.zero_init
        self.zero_parameters()

    def zero_parameters(self) -> None:
        """Zero what is to start at zero; for use after an initialization."""
        if isinstance(self.fc, nn.Linear):
            nn.init.zeros_(self.fc.weight)
            nn.init.zeros_(self.fc.bias)
        if self.zero_init:
            nn.init.zeros_(self.attn.proj.weight)
            nn.init.zeros_(self.attn.proj.bias)

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        clip_rows: int = 1,
        cls_only: bool = False,
        state: StreamState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the updates of grid and class token; see ``Attention.forward``."""
        groups = self.attn.num_groups(grid_size(grid))
        keep = self.drop_path(grid, groups=groups, clip_rows=clip_rows)
        cls = None if cls is None or self.attn.cls == "skip" else self.norm(cls)
        update, cls_update = self.attn(self.norm(grid), cls, keep, cls_only, state)
        update = None if update is None else self.fc(update)
        return update, None if cls_update is None else self.fc(cls_update)


class TransformerBlock(nn.Module):
    """Attention sub-layers in order, then an MLP, each after a norm.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads of each sub-layer.
        sublayers: The sub-layers, or dictionaries of their arguments. They are named after their
            patterns; a repeated name gets the number of the sub-layer.
        mlp_ratio: Hidden width of the MLP over D.
        mlp: MLP (``layers.mlp``): a name, or a dictionary of ``type`` and options.
        drop: Dropout rate of the attention output and in the MLP.
        attn_drop: Dropout rate of the attention weights.
        drop_path: Stochastic-depth rate.
        drop_path_rule: What is drawn: ``'clip'``, ``'group'`` or ``'unscaled'`` (``layers.drop``).
            The MLP always draws for a whole clip.
        parallel: Whether all sub-layers read the block's input and their updates are summed,
            instead of each sub-layer reading the output of the one before it.
        norm: Norm of each sub-layer and of the MLP (``layers.norm``): a name, or a dictionary of
            ``type`` and ``eps``. Default: layer norm with epsilon 1e-6.

    Raises:
        KeyError: If a name, or a key of a dictionary, is unknown.
        ValueError: If there are no sub-layers.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        sublayers: Sequence[SubLayer | Mapping] = (SubLayer("joint"),),
        mlp_ratio: float = 4.0,
        mlp: str | Mapping = "mlp",
        drop: float = 0.0,
        attn_drop: float = 0.0,
        drop_path: float = 0.0,
        drop_path_rule: str = "clip",
        parallel: bool = False,
        norm: str | Mapping = "layer",
    ) -> None:
        super().__init__()
        self.parallel = parallel
        if not sublayers:
            raise ValueError("a block needs at least one sub-layer, got none")
        self.sublayers = nn.ModuleDict()
        for number, row in enumerate(sublayers, start=1):
            row = read(SubLayer, row, "option of a sub-layer")
            name = f"{row.name}_{number}" if row.name in self.sublayers else row.name
            self.sublayers[name] = AttentionSubLayer(
                dim,
                num_heads,
                row,
                DropPath(drop_path, drop_path_rule),
                norm,
                attn_drop=attn_drop,
                proj_drop=drop,
            )
        self.norm = build_norm(norm, dim)
        self.mlp = MLPS.build(mlp, dim=dim, hidden_dim=int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path, drop_path_rule)

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        clip_rows: int = 1,
        cls_only: bool = False,
        state: StreamState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Apply the block.

        Args:
            grid: Tokens (B, T, H, W, D).
            cls: Class token (B, 1, D), or None.
            clip_rows: Number of batch rows that share a stochastic-depth draw (see ``DropPath``).
            cls_only: Whether to compute only what the class token needs (see
                ``Attention.forward``).
            state: State of a stream that the grid is a part of.

        Returns:
            Grid (None with ``cls_only``) and class token, in their shapes.
        """
        source = (grid, cls)
        for number, sublayer in enumerate(self.sublayers.values(), start=1):
            tokens = source if self.parallel else (grid, cls)
            alone = cls_only and (self.parallel or number == len(self.sublayers))
            update, cls_update = sublayer(*tokens, clip_rows, alone, state)
            grid = grid if update is None else grid + update
            cls = cls if cls_update is None else cls + cls_update
        keep = self.drop_path(grid, clip_rows=clip_rows)
        out = None if cls_only else self._add_mlp(grid, keep)
        return out, None if cls is None else self._add_mlp(cls, keep)

    def _add_mlp(self, x: Tensor, keep: Tensor | None) -> Tensor:
        update = self.mlp(self.norm(x))
        return x + (update if keep is None else update * keep.view(-1, *[1] * (x.dim() - 1)))
