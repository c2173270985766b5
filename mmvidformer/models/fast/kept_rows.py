"""Rows of a batch whose updates stochastic depth drops are not computed (dinov2), on a CPU."""

from collections.abc import Callable

from torch import Tensor, nn

from mmvidformer.layers import AttentionSubLayer, Context, TransformerBlock
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.models.fast.wrapping import wrap


def compute_kept_rows(model: nn.Module) -> None:
    """Let the blocks of a model compute the rows that stochastic depth keeps, in place.

    It is for training on a CPU, where their number is known at once; a GPU would have to wait for
    it. Sub-layers with ``fc`` compute all rows, as its bias reaches dropped updates, too.

    Args:
        model: Any module; what is no block stays.
    """
    for part in model.modules():
        if isinstance(part, AttentionSubLayer) and part.fc is None:
            wrap(part, "forward", attend)
        elif isinstance(part, TransformerBlock):
            wrap(part, "feed_forward", feed_forward)


def attend(
    sublayer: AttentionSubLayer,
    run: Callable[..., Tensor],
    tokens: Tensor,
    context: Context,
    source: Tensor,
    draw: Draw | None = None,
) -> Tensor:
    """Forward pass of a sub-layer for the rows that are kept."""
    if draw is not None or not sublayer.training or context.state is not None:
        return run(tokens, context, source, draw)
    draw = sublayer.draw(source, context)
    rows = kept_rows(draw)
    if draw is None or rows is None:
        return run(tokens, context, source, draw)
    taken = tokens[rows]
    source = taken if source is tokens else source[rows]
    updated = run(taken, take_rows(context, rows), source, Draw(draw.factors[rows]))
    return tokens.index_copy(0, rows, updated.to(tokens.dtype))


def feed_forward(
    block: TransformerBlock,
    run: Callable[..., Tensor],
    tokens: Tensor,
    context: Context,
    draw: Draw | None = None,
) -> Tensor:
    """Run the MLP of a block for the rows that are kept."""
    if draw is not None or not block.training:
        return run(tokens, context, draw)
    draw = block.draw(tokens, context)
    rows = kept_rows(draw)
    if draw is None or rows is None:
        return run(tokens, context, draw)
    updated = run(tokens[rows], context, Draw(draw.factors[rows]))
    return tokens.index_copy(0, rows, updated.to(tokens.dtype))


def kept_rows(draw: Draw | None) -> Tensor | None:
    """Return the rows (K,) of a batch that are kept; None if all are to be computed.

    Factors by group need all rows. So does a batch that is dropped as a whole, or no weight has a
    gradient.
    """
    if draw is None or draw.factors.shape[1] > 1 or draw.prefix_factors is not None:
        return None
    if draw.factors.device.type != "cpu" or not runs_eagerly():
        return None
    rows = draw.factors[:, 0].nonzero()[:, 0]
    return rows if 0 < len(rows) < len(draw.factors) else None


def take_rows(context: Context, rows: Tensor) -> Context:
    """Return the context of some rows (K,) of the batch."""
    kept = context.kept and context.kept._replace(numbers=context.kept.numbers[rows])
    counts = None if context.counts is None else context.counts[rows]
    rope = context.rope
    if rope is not None and len(rope) > 1:
        rope = rope[rows]
    return context._replace(kept=kept, counts=counts, rope=rope)
