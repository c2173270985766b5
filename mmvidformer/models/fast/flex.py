"""FlexAttention on a GPU, where the fused softmax would need a mask of all pairs, or all scores."""

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mmvidformer.layers import Attention, Context
from mmvidformer.layers.eager import compute_once, runs_eagerly
from mmvidformer.layers.kernels.capped import CappedKernel
from mmvidformer.layers.kernels.softmax import SoftmaxKernel
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.patterns.local import LocalPattern
from mmvidformer.models.fast.prefix_only import leaves_places
from mmvidformer.models.fast.wrapping import wrap

if TYPE_CHECKING:  # importing it takes as long as all else
    from torch.nn.attention.flex_attention import BlockMask

logger = logging.getLogger("mmvidformer")

DEVICES = {"cuda"}  # elsewhere it computes all scores, or has no backward pass
LEAST_TOKENS = 128  # of a sequence: it computes blocks of as many
LEAST_WIDTH = 16  # of a head, for Triton's products


def attend_in_flex(model: nn.Module) -> None:
    """Let some attention run in PyTorch's FlexAttention on a GPU, in place.

    - The ``capped`` kernel bounds scores as they are computed.
    - Causal patterns of several tokens a frame leave out blocks of later frames.
    - Local attention reads the keys where they are, instead of a copy for each window.

    Numbers change by rounding. Shifted windows stay: their mask is shared by all clips, and blocks
    of 128 tokens of a window are never empty. Graphs and short sequences stay, too.

    Args:
        model: Any module; attention with dropout, counts or a stream runs as before.
    """
    for part in model.modules():
        if isinstance(part, SoftmaxKernel):
            wrap(part, "forward", attend)
        elif isinstance(part, Attention) and isinstance(part.kernel, SoftmaxKernel):
            is_local = [isinstance(pattern, LocalPattern) for pattern in part.patterns]
            if is_local == [True] and part.cls in ("global", "skip"):
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
    queries, keys, values = (x.transpose(1, 2) for x in (q[:, prefix:], k, v))
    others = context.counts is not None or leaves_places(attn, context)
    if others or not isinstance(kernel, SoftmaxKernel) or not runs_flex(kernel, queries):
        return run(q, k, v, context, factors)
    blocks = compute_once(local_blocks, q, context.grid.size, prefix, q.device)
    out = run_flex(kernel, queries, keys, values, blocks).transpose(1, 2).flatten(2)
    return torch.cat([attn.attend_to_all(q, k, v, context), out], dim=1) if prefix else out


def runs_flex(kernel: SoftmaxKernel, q: Tensor) -> bool:
    """Return whether FlexAttention computes what a kernel does, for queries (..., n, S, d)."""
    if q.device.type not in DEVICES or q.dim() != 4 or not runs_eagerly():
        return False
    is_large = q.shape[-2] >= LEAST_TOKENS and q.shape[-1] >= LEAST_WIDTH
    drops = kernel.dropout and kernel.training
    return is_large and not drops and q.dtype != torch.float64 and compiles(q.device)


@cache
def compiles(device: torch.device) -> bool:
    """Return whether FlexAttention compiles here, tried once: it needs Triton and a C compiler."""
    try:
        with torch.inference_mode(False), torch.enable_grad():
            x = torch.ones(1, 1, LEAST_TOKENS, LEAST_WIDTH, device=device, requires_grad=True)
            _compiled()(x, x, x).sum().backward()
    except Exception as error:  # of any part of the compiler
        reason = str(error).strip().partition("\n")[0]
        logger.warning("FlexAttention is not used, as it fails on %s: %s", device, reason)
        return False
    return True


def run_flex(
    kernel: SoftmaxKernel, q: Tensor, k: Tensor, v: Tensor, blocks: "BlockMask | None"
) -> Tensor:
    """Attend from queries (B, n, S, d) to keys and values (B, n, S', d)."""
    change: Callable | None = None
    if isinstance(kernel, CappedKernel):
        cap = kernel.cap

        def change(score: Tensor, *places: Tensor) -> Tensor:
            return cap * torch.tanh(score / cap)

    return _compiled()(q, k, v, score_mod=change, block_mask=blocks, scale=kernel.scale)


@cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    # Its loops over blocks need sizes that are constants.
    return torch.compile(flex_attention, dynamic=False)


def causal_blocks(
    step: int, past: int | None, queries: int, keys: int, device: torch.device
) -> "BlockMask":
    """Build the mask of frames of ``step`` tokens, of which a token sees its own and earlier."""
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(clip: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        ago = (query + keys - queries) // step - key // step
        return ago >= 0 if past is None else (ago >= 0) & (ago < past)

    return create_block_mask(sees, None, None, queries, keys, device=device)


def local_blocks(size: tuple[int, int, int], prefix: int, device: torch.device) -> "BlockMask":
    """Build the mask of the windows around the places of a grid (``LocalPattern``)."""
    from torch.nn.attention.flex_attention import create_block_mask

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
