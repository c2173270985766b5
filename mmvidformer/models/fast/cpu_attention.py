"""Attention in bfloat16 on a CPU, by matrix products: faster than the fused operator."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mmvidformer.layers.eager import runs_eagerly
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.models.fast.onednn import multiplies_bfloat16
from mmvidformer.models.fast.wrapping import wrap

Attend = Callable[..., Tensor]

SCORES = 2**20  # scores of a head that are in memory at once
MANY = 16 * SCORES  # of all heads at once: for 32 MB, glibc maps new memory in each call
HEADS = 4  # at once then, or more that are short
LEAST_KEYS = 256  # of attention in float32; fewer take longer to round than bfloat16 saves


def attend_on_cpu(model: nn.Module, int8: bool) -> None:
    """Let softmax attention in bfloat16 multiply matrices on a CPU, in place.

    Numbers change by rounding. What has gradients, or a mask of pairs, runs as before.

    Args:
        model: Any module, without dropout of attention weights.
        int8: Whether attention in float32 is rounded to bfloat16 if there are many keys and the
            processor multiplies it. This changes less than linear layers of 8 bits do.
    """
    for part in model.modules():
        if type(part) is SoftmaxKernel:
            wrap(part, "forward", attend_by_products)
            if int8:
                wrap(part, "forward", attend_in_bfloat16)


def attend_by_products(
    kernel: SoftmaxKernel, run: Attend, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None
) -> Tensor:
    """Forward pass of a kernel."""
    on_cpu = q.dtype == torch.bfloat16 and q.device.type == "cpu"
    if not on_cpu or torch.is_grad_enabled() or isinstance(mask, Causal):
        return run(q, k, v, mask)
    if mask is not None and not _is_of_keys(mask):
        return run(q, k, v, mask)
    q, hidden = q * kernel.scale, None if mask is None else ~mask
    at_once = 0  # scores of a head; a graph would have the operators of each part
    if runs_eagerly():
        at_once = min(q.shape[-2], SCORES // k.shape[-2]) * k.shape[-2]
    if not at_once or q.shape[:-2].numel() * at_once < MANY:
        rows = _attend_in_rows(q, k, v, hidden)
        return rows[0] if len(rows) == 1 else torch.cat(rows, dim=-2)
    out = v.new_empty(*q.shape[:-1], v.shape[-1])
    heads = HEADS * (SCORES // at_once)
    parts = (x.flatten(0, -3).split(heads) for x in (q, k, v, out))
    for queries, keys, values, target in zip(*parts, strict=True):
        torch.cat(_attend_in_rows(queries, keys, values, hidden), dim=-2, out=target)
    return out


def attend_in_bfloat16(
    kernel: SoftmaxKernel, run: Attend, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None
) -> Tensor:
    """Forward pass of a kernel of a model of 8 bits."""
    is_long = mask is None and k.shape[-2] >= LEAST_KEYS and q.dtype == torch.float32
    if not is_long or not runs_eagerly() or torch.is_grad_enabled() or not multiplies_bfloat16():
        return run(q, k, v, mask)
    return run(*(x.bfloat16() for x in (q, k, v))).to(q.dtype)


def _is_of_keys(mask: Tensor) -> bool:
    """Return whether a mask shows all queries the same keys, without weights."""
    return mask.dtype == torch.bool and mask.dim() == 2 and len(mask) == 1


def _attend_in_rows(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> list[Tensor]:
    """Return outputs of parts of the queries, which are scaled, by keys that are not hidden."""
    k, outs = k.transpose(-1, -2).contiguous(), []
    for rows in q.split(max(SCORES // k.shape[-1], 1), dim=-2):
        scores = rows @ k
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        outs.append(scores.softmax(dim=-1) @ v)
    return outs
