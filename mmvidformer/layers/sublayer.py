"""The parts of an attention sub-layer, which blocks run."""

from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.attention import Attention
from mmvidformer.layers.config import EncoderConfig, SubLayer
from mmvidformer.layers.drop import Draw, DropPath, compute_kept
from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.layers.linear import has_hooks, is_plain
from mmvidformer.layers.norm import NORMS, build_scale
from mmvidformer.layers.tokens import Context

LEAST_SAVED = 2**22  # products of numbers, for which five more operators are worth it


class AttentionSubLayer(nn.Module):
    """Norm, attention, one more linear layer or none (``fc``), gate or none, scale of the channels.

    A block runs them, since a call of this module would be one more between it and attention.

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
        if sublayer.fc not in (False, True, "gated"):
            raise UserError(f"fc must be False, True or 'gated', got {sublayer.fc!r}")
        self.fc: nn.Module = nn.Linear(dim, dim) if sublayer.fc else nn.Identity()
        # The hyperbolic tangent of the gate multiplies the update (StreamFormer).
        self.gate = nn.Parameter(torch.zeros(())) if sublayer.fc == "gated" else None
        self.scale = build_scale(dim, config.layer_scale)
        self.zero_init = sublayer.zero_init
        self.zero_parameters()

    def zero_parameters(self) -> None:
        """Zero what is to start at zero; for use after an initialization."""
        zero = list(self.attn.proj.parameters()) if self.zero_init else []
        zero += self.fc.parameters() if self.gate is None else [self.gate]
        for parameter in zero:
            nn.init.zeros_(parameter)

    def fc_weight(self, tokens: Tensor) -> Tensor | None:
        """Return the weight of ``fc`` if ``Attention.forward`` is to multiply by it; in training.

        ``W_fc (W_proj x)`` is ``(W_fc W_proj) x`` if nothing lies between, for which stochastic
        depth is no obstacle: its factors commute with ``W_fc``. ``optimize_for_inference`` folds
        the two for good.
        """
        fc, proj = self.fc, self.attn.proj
        if not self.training or not runs_eagerly() or not is_plain(fc, nn.Linear):
            return None
        if not is_plain(proj, nn.Linear) or not is_plain(self.attn, Attention):
            return None
        between = self.attn.proj_drop.p or has_hooks(self.attn.proj_drop)
        if between or fc.bias is None or proj.bias is None:
            return None
        batch, length, dim = tokens.shape
        saved = (batch * length - dim) * dim**2  # products of the forward pass
        return fc.weight if saved >= LEAST_SAVED else None

    def draw(self, tokens: Tensor, context: Context) -> Draw:
        """Draw the factors of stochastic depth.

        Args:
            tokens: Tokens (B, P + T H W, D).
            context: Their order, and the rows of each clip.
        """
        pattern, *others = self.attn.patterns
        groups = 1 if others else pattern.num_groups(context.grid.size)
        factors = self.drop_path(tokens, groups=groups, clip_rows=context.clip_rows)
        if factors is not None and factors.shape[1] > 1 and self.attn.cls == "global":
            return Draw(factors, self.drop_path(tokens, clip_rows=context.clip_rows))  # in no group
        # fc adds its bias to updates that are dropped, too.
        needs_all = context.state is not None or not isinstance(self.fc, nn.Identity)
        return Draw(factors) if needs_all else compute_kept(factors)

    def finish(self, update: Tensor, fc_weight: Tensor | None) -> Tensor:
        """Apply ``fc``, the gate and the scale of the channels to what ``attn`` returned.

        Where ``attn`` has multiplied by the weight of ``fc``, its bias is left to add.
        """
        fc: Any = self.fc
        update = fc(update) if fc_weight is None else update + fc.bias.to(update)
        if self.gate is not None:
            update = self.gate.tanh().to(update) * update
        return self.scale(update)
