"""What the backward pass computes again instead of keeping it (activation checkpointing)."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.layers import Attention, Context, Mlp, TransformerBlock
from mmvidformer.layers.attention import split_heads
from mmvidformer.layers.config import WithCp
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.models.fast.wrapping import wrap
from mmvidformer.models.horst.layer import HorstLayer

# Parts of the heads whose keys are gathered together. Large parts leave no holes in the memory.
PARTS = 4


def recompute(model: nn.Module, what: WithCp) -> None:
    """Choose what the backward pass computes again, in place; it may be chosen anew.

    Args:
        model: Any module; what is neither block nor layer of HORST stays.
        what: ``with_cp`` of ``layers.EncoderConfig``.
    """
    for part in model.modules():
        if isinstance(part, TransformerBlock):
            _choose(part, "forward", run_block, what is True)
        elif isinstance(part, Mlp):
            _choose(part, "forward", run_mlp, what == "activations")
        elif isinstance(part, Attention) and isinstance(part.kernel, LinearCostKernel):
            _choose(part, "forward", attend, what == "activations")
        elif isinstance(part, HorstLayer):
            _choose(part, "forward", run_layer, what is True)


def _choose(part: nn.Module, method: str, function: Callable, again: bool) -> None:
    part.recomputes = again  # type: ignore[assignment]
    if again:
        wrap(part, method, function)


def run_block(
    block: TransformerBlock, run: Callable[..., Tensor], tokens: Tensor, context: Context
) -> Tensor:
    """Forward pass of a block, which the backward pass runs again."""
    if not block.recomputes or not torch.is_grad_enabled() or context.state is not None:
        return run(tokens, context)
    return checkpoint(run, tokens, context, use_reentrant=False)


def run_mlp(mlp: Mlp, run: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Forward pass of an MLP, so that its hidden layer is kept once instead of twice.

    It is the largest tensor of a block. The recomputation stops early, before the second linear
    layer, so it costs an activation.
    """
    if not (mlp.recomputes and torch.is_grad_enabled()):
        return run(x)
    layers: list[Callable] = [*mlp]
    first = layers.index(mlp.act)
    hidden = reduce(_call, layers[:first], x)
    map_hidden = partial(reduce, _call, layers[first:])
    random = mlp.training and hasattr(mlp, "drop")
    return checkpoint(map_hidden, hidden, use_reentrant=False, preserve_rng_state=random)


def _call(x: Tensor, layer: Callable[[Tensor], Tensor]) -> Tensor:
    return layer(x)


def attend(
    attn: Attention,
    run: Callable[..., Tensor],
    tokens: Tensor,
    context: Context,
    draw: Draw | None = None,
) -> Tensor:
    """Forward pass of attention of linear cost, which keeps what is projected."""
    if not attn.recomputes or context.state is not None or not _can_recompute():
        return run(tokens, context, draw)

    def mix_projected(projected: Tensor) -> Tensor:
        heads = attn.run_stages(projected, context)
        return attn.mix(*heads, context, None if draw is None else draw.factors)

    out = checkpoint(mix_projected, attn.qkv(tokens), use_reentrant=False)
    return attn.project_out(out, context, draw)


def run_layer(layer: HorstLayer, run: Callable[..., tuple], *inputs: Any) -> tuple:
    """Forward pass of a layer of HORST, which the backward pass of training runs again."""
    if not (layer.recomputes and layer.training):
        return run(*inputs)
    return checkpoint(run, *inputs, use_reentrant=False)


def copy_again(model: nn.Module) -> None:
    """Let training not keep what is copied many times, but copy it again, in place.

    - Keys of TimeSformer's local attention, each in many windows. They are gathered for some heads
      at a time.
    - States of HORST: a plain layer keeps S of them at each of T steps, memory of O(T S).

    Args:
        model: Any module; what has neither stays.
    """
    for part in model.modules():
        if isinstance(part, Attention) and any(pattern.gathers for pattern in part.patterns):
            wrap(part, "mix", mix)
        elif isinstance(part, HorstLayer):
            wrap(part, "attend_to", attend_to)


def mix(
    attn: Attention,
    run: Callable[..., Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    context: Context,
    factors: Tensor | None = None,
) -> Tensor:
    """``Attention.mix``, for some heads at a time."""
    if not _can_recompute():
        return run(q, k, v, context, factors)
    parts = split_heads(q, k, v, PARTS if len(attn.patterns) == 1 else 1)
    attend_to = partial(checkpoint, run, use_reentrant=False)
    return torch.cat([attend_to(*heads, context, factors) for heads in parts], dim=-1)


def attend_to(layer: HorstLayer, run: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """``HorstLayer.attend_to``, which the backward pass runs again."""
    if not _can_recompute():
        return run(*inputs)
    return checkpoint(run, *inputs, use_reentrant=False, preserve_rng_state=False)


def _can_recompute() -> bool:
    """A compiler chooses itself what to recompute, and torch.func cannot recompute."""
    return torch.is_grad_enabled() and runs_eagerly()
