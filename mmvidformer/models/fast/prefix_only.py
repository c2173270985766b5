"""The last block computes the class token alone, where nothing reads the places."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.layers import Attention, AttentionSubLayer, Context, Encoder, TransformerBlock
from mmvidformer.layers.attention import split_heads
from mmvidformer.layers.linear import has_hooks
from mmvidformer.layers.patterns.base import copies, count_groups, merge, with_keys
from mmvidformer.layers.tokens import Tokens
from mmvidformer.models.fast.wrapping import is_wrapped, wrap


def compute_prefix_only(model: nn.Module) -> None:
    """Let the last block of each encoder leave out the places, in place, where nothing reads them.

    Keys and values are those of all tokens; queries, output projection and MLP those of the prefix.
    The forward pass of a ``VideoTransformer`` does not read the places if it returns the class
    token; ``forward_features`` does, and so do hooks.

    Args:
        model: Any module; encoders without a class token stay.
    """
    for encoder in model.modules():
        if isinstance(encoder, Encoder) and can_leave_places(encoder):
            block = encoder.blocks[-1]
            wrap(encoder, "forward", encode)
            wrap(block, "forward", run_block)
            for sublayer in last_sublayers(block):
                wrap(sublayer.attn, "mix", mix)


def can_leave_places(encoder: Encoder) -> bool:
    """Return whether the last block of an encoder can compute the prefix alone."""
    attentions = [sublayer.attn for sublayer in last_sublayers(encoder.blocks[-1])]
    return encoder.cls_token is not None and all(map(can_attend_alone, attentions))


def can_attend_alone(attn: Attention) -> bool:
    """Return whether the prefix can attend without the queries of the places."""
    return "some_queries" in attn.kernel.supports and attn.cls != "skip"


def leaves_places(attn: Attention, context: Context) -> bool:
    """Return whether an attention is to compute the prefix alone."""
    return context.prefix_only and is_wrapped(attn, "mix", mix)


def last_sublayers(block: Any) -> list[AttentionSubLayer]:
    """Return the sub-layers of a block whose updates no other sub-layer reads."""
    sublayers: list[Any] = [*block.sublayers.values()]
    return sublayers if block.parallel else sublayers[-1:]


def encode(
    encoder: Encoder,
    run: Callable[..., Tokens],
    tokens: Tokens,
    outputs: list[Tokens] | None = None,
) -> Tokens:
    """Forward pass of an encoder, whose last block leaves out the places if nothing reads them."""
    context = tokens.context
    parts = [encoder, encoder.norm, *encoder.blocks[-1].modules()] if context.prefix_only else []
    if encoder.passes_grid or any(map(has_hooks, parts)):
        context = context._replace(prefix_only=False)
    tensor, returned = run(tokens._replace(context=context), outputs)
    if tensor.shape[1] < returned.grid.num_tokens:
        returned = returned._replace(grid=returned.grid._replace(t=0))
    return Tokens(tensor, returned)


def run_block(
    block: TransformerBlock, run: Callable[..., Tensor], tokens: Tensor, context: Context
) -> Tensor:
    """Forward pass of the last block; returns (B, P, D) if the prefix alone is read."""
    if not context.prefix_only:
        return run(tokens, context)
    last = last_sublayers(block)
    whole, x = context._replace(prefix_only=False), tokens
    for sublayer in [*block.sublayers.values()][: -len(last)]:
        x = sublayer(x, whole, x)
    source, x = x, x[:, : context.grid.prefix]
    for sublayer in last:
        x = sublayer(x, context, source)
    x = block.feed_forward(x, context)
    return x if block.adapter is None else block.adapter(x, context.grid)


def mix(
    attn: Attention,
    run: Callable[..., Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    context: Context,
    factors: Tensor | None = None,
) -> Tensor:
    """``Attention.mix``; returns (B, P, D) if the prefix alone is read."""
    if not context.prefix_only:
        return run(q, k, v, context, factors)
    if attn.cls == "sink":
        return attn.attend_to_past(q, k, v, context)
    outs = []
    for pattern, heads in zip(attn.patterns, split_heads(q, k, v, len(attn.patterns)), strict=True):
        if attn.cls == "global" or pattern.whole:
            out = attn.attend_to_all(*heads, context)
        else:
            queries, keys, values = heads
            count = pattern.num_groups(context.grid.size)
            queries = copies(queries[:, : context.grid.prefix], count)
            out = attn.kernel(*with_keys(pattern, attn.cls, queries, keys, values, context))
            out = out if out.dim() == 5 else out.unflatten(0, (-1, count))
            out = merge(out, count_groups(pattern, factors, context))
        outs.append(out)
    return torch.cat(outs, dim=-1)
