"""Blocks of attention and MLP."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.adapter import Adapter
from mmvidformer.layers.attention import Attention
from mmvidformer.layers.config import EncoderConfig, SubLayer, read
from mmvidformer.layers.drop import Draw, DropPath
from mmvidformer.layers.mlp import MLPS, Mlp
from mmvidformer.layers.norm import NORMS, build_scale
from mmvidformer.layers.tokens import Context


class TransformerBlock(nn.Module):
    """Attention sub-layers in order, then an MLP, each after a norm and with a residual connection.

    A sub-layer is ``x + scale(gate(fc(drop(attn(norm(x))))))``, the MLP
    ``x + drop(scale(mlp(norm(x))))``. ``norm``, ``scale`` and ``drop_path`` here are the MLP's.

    Args:
        config: Description of the encoder, or a dictionary of it.
        sublayers: The sub-layers. They are named after their patterns; a repeated name gets the
            number of the sub-layer. Default: those of the first block of the encoder.
        drop_path_rate: Stochastic-depth rate of this block. The MLP draws for a whole clip.

    Raises:
        KeyError: If a name, or a key of a dictionary, is unknown.
        UserError: If there are no sub-layers.
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
            raise UserError("a block needs at least one sub-layer, got none")
        self.parallel = config.parallel
        self.sublayers = nn.ModuleDict()
        for number, sublayer in enumerate(sublayers, start=1):
            taken = sublayer.name in self.sublayers
            name = f"{sublayer.name}_{number}" if taken else sublayer.name
            drop_path = DropPath(drop_path_rate, config.drop_path_rule)
            self.sublayers[name] = AttentionSubLayer(config, sublayer, drop_path)
        dim, _, _, ratio = config.sizes.values()
        self.norm = NORMS.build(config.norm, normalized_shape=dim)
        options = dict(dim=dim, hidden_dim=int(dim * ratio), drop=config.drop_rate)
        self.mlp = MLPS.build(config.mlp, **options)
        # One that is not of this package gets the grid, too: (B, T, H, W, D), or flat tokens
        # (B, L, D) if there is a prefix.
        self.mlp_reads_grid = not isinstance(self.mlp, Mlp) or hasattr(self.mlp, "depthwise")
        self.scale = build_scale(dim, config.layer_scale)
        self.drop_path = DropPath(drop_path_rate, config.drop_path_rule)
        self.adapter = None if config.adapter is None else Adapter(dim, config.adapter)

    def forward(self, tokens: Tensor, context: Context) -> Tensor:
        """Return the tokens after the block.

        Args:
            tokens: Tokens (B, P + T H W, D).
            context: Their order, and what belongs to them.

        Returns:
            Tokens in their shape.
        """
        x = tokens
        for sublayer in self.sublayers.values():
            x = sublayer(x, context, tokens if self.parallel else x)
        x = self.feed_forward(x, context)
        return x if self.adapter is None else self.adapter(x, context.grid)

    def feed_forward(self, tokens: Tensor, context: Context, draw: Draw | None = None) -> Tensor:
        """Return ``x + drop(scale(mlp(norm(x))))`` for tokens x; see ``AttentionSubLayer``."""
        if draw is None and self.training:
            draw = self.draw(tokens, context)
        normed = self.norm(tokens)
        if self.mlp_reads_grid and not context.grid.prefix:
            update = self.mlp(normed.unflatten(1, context.grid.size)).flatten(1, 3)
        else:
            update = self.mlp(normed)
        if self.scale is not None:
            update = self.scale(update)
        return tokens + (update if draw is None else draw.scale(update))

    def draw(self, tokens: Tensor, context: Context) -> Draw | None:
        """Draw the factors of stochastic depth for the MLP; None if nothing is dropped."""
        factors = self.drop_path(tokens, clip_rows=context.clip_rows)
        return None if factors is None else Draw(factors)


class AttentionSubLayer(nn.Module):
    """Norm, attention, one more linear layer or none (``fc``), gate or none, scale or none.

    Stochastic depth is a draw of factors, not a loss of tokens. The attention multiplies its output
    by them, since it averages the copies of a class token by the same factors. The bias of ``fc``
    is not dropped. A caller passes ``draw`` if it has drawn already (``models/fast``).

    Args:
        config: Description of the encoder.
        sublayer: Description of the sub-layer.
        drop_path: Its stochastic depth.
    """

    def __init__(self, config: EncoderConfig, sublayer: SubLayer, drop_path: DropPath) -> None:
        super().__init__()
        dim, _, num_heads, _ = config.sizes.values()
        self.norm = NORMS.build(sublayer.norm or config.norm, normalized_shape=dim)
        self.attn = Attention(
            dim,
            num_heads,
            sublayer.patterns,
            sublayer.cls or config.cls or "mean",
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
        if sublayer.fc not in (False, True, "gated"):
            raise UserError(f"fc must be False, True or 'gated', got {sublayer.fc!r}")
        self.fc = nn.Linear(dim, dim) if sublayer.fc else None
        # The hyperbolic tangent of the gate multiplies the update (StreamFormer).
        self.gate = nn.Parameter(torch.zeros(())) if sublayer.fc == "gated" else None
        self.scale = build_scale(dim, config.layer_scale)
        self.zero_init, self.skips_prefix = sublayer.zero_init, self.attn.cls == "skip"
        self.zero_parameters()

    def forward(
        self, tokens: Tensor, context: Context, source: Tensor, draw: Draw | None = None
    ) -> Tensor:
        """Return ``x + scale(gate(fc(drop(attn(norm(y))))))`` for tokens x and their source y.

        Args:
            tokens: Tokens (B, P + T H W, D).
            context: Their order, and what belongs to them.
            source: What the attention reads: the tokens or, in a parallel block, its input.
            draw: Factors of stochastic depth. Default: they are drawn in training.
        """
        if self.skips_prefix and context.grid.prefix:
            return self._skip_prefix(tokens, context, source, draw)
        if draw is None and self.training:
            draw = self.draw(source, context)
        update = self.attn(self.norm(source), context, draw)
        if self.fc is not None:
            update = self.fc(update)
        if self.gate is not None:
            update = self.gate.tanh().to(update) * update
        if self.scale is not None:
            update = self.scale(update)
        return tokens + update

    def _skip_prefix(
        self, tokens: Tensor, context: Context, source: Tensor, draw: Draw | None
    ) -> Tensor:
        prefix, count = context.grid.prefix, context.grid.num_places
        skipped, places = tokens.split_with_sizes([prefix, count], dim=1)
        source = places if source is tokens else source[:, prefix:]
        places = self.forward(places, context.without_prefix(), source, draw)
        return torch.cat([skipped, places], dim=1)

    def draw(self, tokens: Tensor, context: Context) -> Draw | None:
        """Draw the factors of stochastic depth; None if nothing is dropped.

        Args:
            tokens: Tokens (B, P + T H W, D).
            context: Their order, and the rows of each clip.
        """
        pattern, *others = self.attn.patterns
        groups = 1 if others else pattern.num_groups(context.grid.size)
        factors = self.drop_path(tokens, groups=groups, clip_rows=context.clip_rows)
        if factors is None:
            return None
        if factors.shape[1] > 1 and self.attn.cls in ("global", "sink"):  # in no group
            return Draw(factors, self.drop_path(tokens, clip_rows=context.clip_rows))
        return Draw(factors)

    def zero_parameters(self) -> None:
        """Zero what is to start at zero; for use after an initialization."""
        zero = list(self.attn.proj.parameters()) if self.zero_init else []
        if self.gate is not None:
            zero.append(self.gate)
        elif self.fc is not None:
            zero += self.fc.parameters()
        for parameter in zero:
            nn.init.zeros_(parameter)
