"""The output projection of an attention and the linear layer after it, in one product."""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn
from torch.func import functional_call

from mmvidformer.layers import Attention, AttentionSubLayer, Context
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.layers.linear import has_hooks, is_plain
from mmvidformer.models.fast.wrapping import wrap

LEAST_SAVED = 2**22  # products of numbers, for which five more operators are worth it


def fold_fc(model: nn.Module) -> None:
    """Let sub-layers with ``fc`` multiply once in training, in place.

    ``W_fc (W_proj x)`` is ``(W_fc W_proj) x`` if nothing lies between, for which stochastic depth
    is no obstacle: its factors commute with ``W_fc``. ``optimize_for_inference`` folds for good.

    Args:
        model: Any module; what has no ``fc`` stays.
    """
    for part in model.modules():
        if isinstance(part, AttentionSubLayer) and part.fc is not None:
            wrap(part, "forward", attend)


def attend(
    sublayer: AttentionSubLayer,
    run: Callable[..., Tensor],
    tokens: Tensor,
    context: Context,
    source: Tensor,
    draw: Draw | None = None,
) -> Tensor:
    """Forward pass of a sub-layer, with one product if it is worth it."""
    skips = sublayer.skips_prefix and context.grid.prefix  # it comes again, without the prefix
    if skips or not is_worth_it(sublayer, tokens):
        return run(tokens, context, source, draw)
    draw = sublayer.draw(source, context) if draw is None else draw
    attn, fc = sublayer.attn, cast(nn.Linear, sublayer.fc)
    heads = attn.project(sublayer.norm(source), context)
    out = attn.mix(*heads, context, None if draw is None else draw.factors)
    folded = {"weight": fc.weight @ attn.proj.weight, "bias": fc.weight @ attn.proj.bias}
    update = functional_call(attn.proj, folded, (out,))
    if draw is not None:
        update = draw.scale_groups(update, attn.patterns[0], context.grid)
    update = update + fc.bias.to(update)
    if sublayer.gate is not None:
        update = sublayer.gate.tanh().to(update) * update
    if sublayer.scale is not None:
        update = sublayer.scale(update)
    return tokens + update


def is_worth_it(sublayer: AttentionSubLayer, tokens: Tensor) -> bool:
    """Return whether one product does for two, and costs less for so many tokens (B, L, D)."""
    fc, attn = sublayer.fc, sublayer.attn
    if not sublayer.training or not runs_eagerly() or fc is None:
        return False
    if not is_plain(fc, nn.Linear):
        return False
    if not is_plain(attn.proj, nn.Linear) or not is_plain(attn, Attention):
        return False
    between = attn.proj_drop is not None and (attn.proj_drop.p or has_hooks(attn.proj_drop))
    if between or fc.bias is None or attn.proj.bias is None:
        return False
    batch, length, dim = tokens.shape
    saved = (batch * length - dim) * dim**2  # products of the forward pass
    return saved >= LEAST_SAVED
