"""A transformer block: attention sub-layers, then an MLP, each on a residual connection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from mmvidformer.layers.attention import Attention, ClsPolicy
from mmvidformer.layers.drop import DropPath
from mmvidformer.layers.mlp import Mlp


@dataclass(frozen=True)
class SubLayer:
    """One row of a model's table: an attention sub-layer of a block.

    Args:
        patterns: Names of the patterns; several share the heads of the sublayer.
        cls: Class-token policy (see ``Attention``).
        kernel: Name of the kernel, or a dictionary of ``type`` and options.
        fc: A further linear layer on the update, after stochastic depth, that starts at zero
            (the ``temporal_fc`` of TimeSformer).
        fixation: Gates on queries and keys (see ``Attention``).
        shifts: Shifts of keys and values (see ``Attention``).
        shift_last: Shift after the gates instead of before.
    """

    patterns: tuple[str, ...]
    cls: ClsPolicy = "mean"
    kernel: str | Mapping = "softmax"
    fc: bool = False
    fixation: str | Mapping | None = None
    shifts: tuple[str | Mapping, ...] = ()
    shift_last: bool = False

    @classmethod
    def of(cls, row: "SubLayer | Mapping") -> "SubLayer":
        """Take a sublayer, or the dictionary of a config that describes one.

        Raises:
            TypeError: If the dictionary has a key that a sublayer has not.
        """
        if isinstance(row, SubLayer):
            return row
        return cls(**{**row, "patterns": tuple(row["patterns"])})

    @property
    def name(self) -> str:
        """Name of the sublayer within its block, such as ``'space'`` or ``'time_space'``."""
        return "_".join(self.patterns)


class AttentionSubLayer(nn.Module):
    """Pre-norm attention on a residual connection.

    Args:
        dim: Token width D.
        num_heads: Heads.
        sublayer: The row that says which attention.
        drop_path: Stochastic depth of the sublayer.
        norm_eps: Epsilon of the layer norm.
        attn_drop: Dropout on attention weights.
        proj_drop: Dropout on the output.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        sublayer: SubLayer,
        drop_path: DropPath,
        norm_eps: float = 1e-6,
        attn_drop: float = 0.0,
        proj_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=norm_eps)
        self.attn = Attention(
            dim,
            num_heads,
            patterns=sublayer.patterns,
            cls=sublayer.cls,
            kernel=sublayer.kernel,
            fixation=sublayer.fixation,
            shifts=sublayer.shifts,
            shift_last=sublayer.shift_last,
            attn_drop=attn_drop,
            proj_drop=proj_drop,
        )
        self.drop_path = drop_path
        self.fc = nn.Linear(dim, dim) if sublayer.fc else nn.Identity()

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        clip_rows: int = 1,
        cls_only: bool = False,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Give the updates of grid (B, T, H, W, D) and class token (B, 1, D), each or None."""
        groups = self.attn.num_groups(tuple(grid.shape[1:4]))
        keep = self.drop_path(grid, groups=groups, clip_rows=clip_rows)
        seen = cls is not None and self.attn.cls != "skip"
        updates = self.attn(self.norm(grid), self.norm(cls) if seen else None, keep, cls_only)
        grid, cls = (None if update is None else self.fc(update) for update in updates)
        return grid, cls


class TransformerBlock(nn.Module):
    """Attention sublayers in order, then the MLP.

    Args:
        dim: Token width D.
        num_heads: Heads of each sublayer.
        sublayers: The sub-layers, or dictionaries of their arguments; their patterns must differ.
        mlp_ratio: Hidden width of the MLP over D.
        act: Activation of the MLP.
        norm_eps: Epsilon of the layer norms.
        drop: Dropout on attention output and MLP.
        attn_drop: Dropout on attention weights.
        drop_path: Rate of stochastic depth.
        drop_path_rescale: See ``DropPath``.
        drop_path_per_group: See ``DropPath``; the MLP always draws for a clip.
        depthwise: A depthwise convolution in the MLP (see ``Mlp``); without class token only.
        parallel: All sublayers read the block's input and their updates are summed, instead of each
            reading what the sublayer before it left.

    Raises:
        ValueError: If there is no sublayer, or two sublayers have the same patterns.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        sublayers: Sequence[SubLayer | Mapping] = (SubLayer(("joint",)),),
        mlp_ratio: float = 4.0,
        act: str = "gelu",
        norm_eps: float = 1e-6,
        drop: float = 0.0,
        attn_drop: float = 0.0,
        drop_path: float = 0.0,
        drop_path_rescale: bool = True,
        drop_path_per_group: bool = False,
        depthwise: bool = False,
        parallel: bool = False,
    ) -> None:
        super().__init__()
        self.parallel = parallel
        sublayers = [SubLayer.of(sublayer) for sublayer in sublayers]
        names = [sublayer.name for sublayer in sublayers]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a block needs sublayers with different patterns, got {names}")
        self.sublayers = nn.ModuleDict(
            {
                sublayer.name: AttentionSubLayer(
                    dim,
                    num_heads,
                    sublayer,
                    DropPath(drop_path, drop_path_rescale, drop_path_per_group),
                    norm_eps=norm_eps,
                    attn_drop=attn_drop,
                    proj_drop=drop,
                )
                for sublayer in sublayers
            }
        )
        self.norm = nn.LayerNorm(dim, eps=norm_eps)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), act=act, drop=drop, depthwise=depthwise)
        self.drop_path = DropPath(drop_path, drop_path_rescale)

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        clip_rows: int = 1,
        cls_only: bool = False,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Run the block.

        Args:
            grid: Tokens (B, T, H, W, D).
            cls: Class token (B, 1, D), or None.
            clip_rows: Rows of the batch that share a stochastic-depth draw (see ``DropPath``).
            cls_only: Compute only what the class token needs (see ``Attention.forward``).

        Returns:
            Grid (None with ``cls_only``) and class token, in their shapes.
        """
        source = (grid, cls)
        last = list(self.sublayers)[-1]
        for name, sublayer in self.sublayers.items():
            tokens = source if self.parallel else (grid, cls)
            alone = cls_only and (self.parallel or name == last)
            update, cls_update = sublayer(*tokens, clip_rows, alone)
            grid = None if update is None else grid + update
            cls = cls if cls_update is None else cls + cls_update
        keep = self.drop_path(source[0], clip_rows=clip_rows)
        if grid is not None:
            update = self.mlp(self.norm(grid))
            grid = grid + (update if keep is None else update * keep[:, :, None, None, None])
        if cls is not None:
            update = self.mlp(self.norm(cls))
            cls = cls + (update if keep is None else update * keep[..., None])
        return grid, cls
