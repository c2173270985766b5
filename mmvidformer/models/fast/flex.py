"""FlexAttention on a GPU, where the fused softmax would need a mask of all pairs, or all scores."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from mmvidformer.layers import Attention, Context
from mmvidformer.layers.eager import compute_once
from mmvidformer.layers.kernels.capped import CappedKernel
from mmvidformer.layers.kernels.softmax import SoftmaxKernel
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.patterns.base import LocalPattern
from mmvidformer.models.fast.prefix_only import leaves_places
from mmvidformer.models.fast.wrapping import wrap

DEVICES = {"cuda"}  # elsewhere it computes all scores


def attend_in_flex(model: nn.Module) -> None:
    """Let some attention run in PyTorch's FlexAttention on a GPU, in place.

    - The ``capped`` kernel bounds scores as they are computed.
    - Causal patterns of several tokens a frame leave out blocks of later frames.
    - Local attention reads the keys where they are, instead of a copy for each window.

    Numbers change by rounding. Shifted windows stay: their mask is shared by all clips, and blocks
    of 128 tokens of a window are never empty. No command applies this, as it has not run on a GPU.

    Args:
        model: Any module; attention with dropout, counts or a stream runs as before.
    """
    for part in model.modules():
        if isinstance(part, SoftmaxKernel):
            wrap(part, "forward", attend)
        elif isinstance(part, Attention) and isinstance(part.kernel, SoftmaxKernel):
            is_local = [isinstance(pattern, LocalPattern) for pattern in part.patterns]
            if is_local == [True] and part.cls != "mean":
                wrap(part, "mix", mix_local)


def attend(
    kernel: SoftmaxKernel,
    run: Callable[..., Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask = None,
) -> Tensor:
    """Forward pass of a kernel."""
    in_frames = isinstance(mask, Causal) and mask.step > 1 and type(mask.before) is int
    capped = isinstance(kernel, CappedKernel) and mask is None
    if not (in_frames or capped) or not runs_flex(kernel, q):
        return run(q, k, v, mask)
    blocks = None
    if isinstance(mask, Causal):
        lengths = q.shape[-2], k.shape[-2]
        blocks = compute_once(causal_blocks, q, mask.step, mask.past, *lengths, q.device)
    return run_flex(kernel, q, k, v, blocks)


def mix_local(
    attn: Attention,
    run: Callable[..., Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    context: Context,
    factors: Tensor | None = None,
) -> Tensor:
    """``Attention.mix`` of the local pattern, whose windows are a mask of all places."""
    prefix, kernel = context.grid.prefix, attn.kernel
    others = context.counts is not None or leaves_places(attn, context)
    if others or not isinstance(kernel, SoftmaxKernel) or not runs_flex(kernel, q):
        return run(q, k, v, context, factors)
    blocks = compute_once(local_blocks, q, context.grid.size, prefix, q.device)
    queries, keys, values = (x.transpose(1, 2) for x in (q[:, prefix:], k, v))
    out = run_flex(kernel, queries, keys, values, blocks).transpose(1, 2).flatten(2)
    return torch.cat([attn.attend_to_all(q, k, v, context), out], dim=1) if prefix else out


def runs_flex(kernel: SoftmaxKernel, q: Tensor) -> bool:
    """Return whether FlexAttention computes what a kernel does, for such queries."""
    return q.device.type in DEVICES and q.dim() == 4 and not (kernel.dropout and kernel.training)


def run_flex(
    kernel: SoftmaxKernel, q: Tensor, k: Tensor, v: Tensor, blocks: BlockMask | None
) -> Tensor:
    """Attend from queries (B, n, S, d) to keys and values (B, n, S', d)."""
    change: Callable | None = None
    if isinstance(kernel, CappedKernel):
        cap = kernel.cap

        def change(score: Tensor, *places: Tensor) -> Tensor:
            return cap * torch.tanh(score / cap)

    flex = flex_attention if q.device.type == "cpu" else _compiled()
    return flex(q, k, v, score_mod=change, block_mask=blocks, scale=kernel.scale)


@cache
def _compiled() -> Any:
    return torch.compile(flex_attention)


def causal_blocks(
    step: int, past: int | None, queries: int, keys: int, device: torch.device
) -> BlockMask:
    """Build the mask of frames of ``step`` tokens, of which a token sees its own and earlier."""

    def sees(clip: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        ago = (query + keys - queries) // step - key // step
        return ago >= 0 if past is None else (ago >= 0) & (ago < past)

    return create_block_mask(sees, None, None, queries, keys, device=device)


def local_blocks(size: tuple[int, int, int], prefix: int, device: torch.device) -> BlockMask:
    """Build the mask of the windows around the places of a grid (``LocalPattern``)."""
    frames, rows, columns = size
    height, width = max(rows // 2, 1), max(columns // 2, 1)

    def sees(clip: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        place = key - prefix
        down = place // columns % rows - query // columns % rows + height // 2
        right = place % columns - query % columns + width // 2
        inside = (down >= 0) & (down < height) & (right >= 0) & (right < width)
        return (place < 0) | inside

    count = frames * rows * columns
    return create_block_mask(sees, None, None, count, prefix + count, device=device)
