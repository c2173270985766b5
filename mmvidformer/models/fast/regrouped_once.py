"""Queries, keys and values are regrouped as one tensor, where no stage makes them three."""

from collections.abc import Callable

from torch import Tensor, nn

from mmvidformer.layers import Attention, AttentionSubLayer, Context, Pattern
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.patterns.base import join, ungroup
from mmvidformer.models.fast.prefix_only import leaves_places
from mmvidformer.models.fast.wrapping import wrap


def regroup_once(model: nn.Module) -> None:
    """Let attention regroup its projection before it is split into three, in place.

    The heads of queries, keys and values are 3 n heads of one tensor, for the class token too.

    Args:
        model: Any module. Attention with stages, several patterns or masks stays. So does one with
            ``fc``, which ``folded_fc`` changes.
    """
    for part in model.modules():
        if isinstance(part, AttentionSubLayer) and part.fc is None and is_alike(part.attn):
            wrap(part.attn, "forward", attend)


def is_alike(attn: Attention) -> bool:
    """Return whether queries, keys and values are the same tokens in the same groups."""
    pattern, *others = attn.patterns
    same_groups = type(pattern).keys is Pattern.keys and type(pattern).mask is Pattern.mask
    same_tokens = attn.cls in ("mean", "skip") and not attn.prepare and attn.kernel.parts == 3
    return same_groups and same_tokens and not others


def attend(
    attn: Attention,
    run: Callable[..., Tensor],
    tokens: Tensor,
    context: Context,
    draw: Draw | None = None,
) -> Tensor:
    """Forward pass of an attention."""
    skipped = attn.cls == "skip" and context.grid.prefix  # an error
    if skipped or leaves_places(attn, context) or context.counts is not None:
        return run(tokens, context, draw)
    (pattern,) = attn.patterns
    heads = attn.qkv(tokens).unflatten(-1, (3 * attn.num_heads, -1))
    if pattern.whole:
        sequences = heads.transpose(1, 2)  # (B, 3 n, S, d)
    else:
        prefix, places = context.grid.split(heads)
        groups = join(prefix, pattern.group(places))  # (B, G, 3 n, S, d)
        sequences = groups.flatten(0, 1)
    q, k, v = sequences.chunk(3, dim=1)
    factors = None if draw is None else draw.factors
    out = ungroup(pattern, attn.cls, attn.kernel(q, k, v), context, factors)
    return attn.project_out(out, context, draw)
