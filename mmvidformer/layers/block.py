from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.config import EncoderConfig, SubLayer, read
from mmvidformer.layers.drop import DropPath
from mmvidformer.layers.mlp import MLPS
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.patterns import grid_size
from mmvidformer.layers.stream import StreamState


class LayerScale(nn.Module):
    """Multiply the channels of an update by learned numbers (Touvron et al. 2021, CaiT).

    Args:
        dim: Token width D.
        value: Initial value of the numbers.
    """

    def __init__(self, dim: int, value: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), float(value)))

    def forward(self, x: Tensor) -> Tensor:
        """Scale (..., D)."""
        return x * self.gamma


class AttentionSubLayer(nn.Module):
    """Pre-norm attention of an encoder, without the residual connection."""

    def __init__(self, config: EncoderConfig, sublayer: SubLayer, drop_path: DropPath) -> None:
        super().__init__()
        dim, _, num_heads, _ = config.sizes.values()
        self.norm = NORMS.build(config.norm, normalized_shape=dim)
        self.attn = Attention(
            dim,
            num_heads,
            sublayer.patterns,
            sublayer.cls or "mean",
            sublayer.kernel,
            sublayer.fixation,
            sublayer.shifts,
            sublayer.shift_last,
            attn_drop=config.attn_drop_rate,
            proj_drop=config.drop_rate,
            qkv_bias=config.qkv_bias,
            qk_norm=config.qk_norm,
            rope=config.rope if sublayer.rope else None,
        )
        self.drop_path = drop_path
        self.fc = nn.Linear(dim, dim) if sublayer.fc else nn.Identity()
        self.scale = _scale(dim, config.layer_scale)
        self.zero_init = sublayer.zero_init
        self.zero_parameters()

    def zero_parameters(self) -> None:
        """Zero what is to start at zero; for use after an initialization."""
        zero = [self.fc, self.attn.proj] if self.zero_init else [self.fc]
        for parameter in nn.ModuleList(zero).parameters():
            nn.init.zeros_(parameter)

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        clip_rows: Tensor | None = None,
        cls_only: bool = False,
        state: StreamState | None = None,
        rope: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the updates of grid and class tokens; see ``Attention.forward``."""
        first, *others = self.attn.patterns
        groups = 1 if others else first.num_groups(grid_size(grid))
        keep = self.drop_path(grid, groups=groups, clip_rows=clip_rows)
        cls_keep = keep
        if self.attn.cls == "global" and keep is not None and keep.shape[1] > 1:
            cls_keep = self.drop_path(grid, clip_rows=clip_rows)  # it attends alone, in no group
        cls = None if cls is None or self.attn.cls == "skip" else self.norm(cls)
        update, cls_update = self.attn(self.norm(grid), cls, keep, cls_only, state, rope, cls_keep)
        update = None if update is None else self.scale(self.fc(update))
        return update, None if cls_update is None else self.scale(self.fc(cls_update))


class TransformerBlock(nn.Module):
    """Attention sub-layers in order, then an MLP, each after a norm and with a residual connection.

    Args:
        config: Description of the encoder, or a dictionary of it.
        sublayers: The sub-layers. They are named after their patterns; a repeated name gets the
            number of the sub-layer. Default: those of the first block of the encoder.
        drop_path_rate: Stochastic-depth rate of this block. The MLP draws for a whole clip.

    Raises:
        KeyError: If a name, or a key of a dictionary, is unknown.
        ValueError: If there are no sub-layers.
    """

    def __init__(
        self,
        config: EncoderConfig | Mapping,
        sublayers: Sequence[SubLayer] | None = None,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        config = read(EncoderConfig, config, "option of an encoder")
        sublayers = config.blocks[0] if sublayers is None else sublayers
        if not sublayers:
            raise ValueError("a block needs at least one sub-layer, got none")
        self.parallel = config.parallel
        self.sublayers = nn.ModuleDict()
        for number, one in enumerate(sublayers, start=1):
            name = f"{one.name}_{number}" if one.name in self.sublayers else one.name
            drop_path = DropPath(drop_path_rate, config.drop_path_rule)
            self.sublayers[name] = AttentionSubLayer(config, one, drop_path)
        dim, _, _, ratio = config.sizes.values()
        self.norm = NORMS.build(config.norm, normalized_shape=dim)
        options = dict(dim=dim, hidden_dim=int(dim * ratio), drop=config.drop_rate)
        self.mlp = MLPS.build(config.mlp, **options)
        self.scale = _scale(dim, config.layer_scale)
        self.drop_path = DropPath(drop_path_rate, config.drop_path_rule)

    def forward(
        self,
        grid: Tensor,
        cls: Tensor | None = None,
        clip_rows: Tensor | None = None,
        cls_only: bool = False,
        state: StreamState | None = None,
        rope: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return grid (None with ``cls_only``) and class tokens after the block.

        Arguments are those of ``Attention.forward``, and ``clip_rows`` of ``DropPath``.
        """
        source = (grid, cls)
        for number, sublayer in enumerate(self.sublayers.values(), start=1):
            tokens = source if self.parallel else (grid, cls)
            alone = cls_only and (self.parallel or number == len(self.sublayers))
            update, cls_update = sublayer(*tokens, clip_rows, alone, state, rope)
            grid = grid if update is None else grid + update
            cls = cls if cls_update is None else cls + cls_update
        keep = self.drop_path(grid, clip_rows=clip_rows)
        out = None if cls_only else self._add_mlp(grid, keep)
        return out, None if cls is None else self._add_mlp(cls, keep)

    def _add_mlp(self, x: Tensor, keep: Tensor | None) -> Tensor:
        update = self.scale(self.mlp(self.norm(x)))
        return x + (update if keep is None else update * keep.view(-1, *[1] * (x.dim() - 1)))


def _scale(dim: int, value: float | None) -> nn.Module:
    return nn.Identity() if value is None else LayerScale(dim, value)
