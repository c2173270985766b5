"""Each kernel but the recurrence by its formula: weights of all pairs of tokens, at any cost.

For readers, and for tests, which compare outputs and gradients of the kernels in evaluation.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.kernels.base import Kernel
from mmvidformer.layers.masks import Causal, Mask


def attend_naively(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
    """Return the output of a kernel; arguments and shapes as in ``Kernel.forward``."""
    if isinstance(mask, Causal):
        mask = mask.pairs(q.shape[-2], k.shape[-2], q.device)
    seen = torch.ones(1, k.shape[-2], dtype=torch.bool) if mask is None else mask
    return WEIGHTS[type(kernel).__name__](kernel, q, k, seen.to(q.device)) @ v


# Weights (..., S, S') of keys (..., S', d) for queries (..., S, d); ``seen`` broadcasts to them. It
# is False or True, or how many times a key counts.


def _softmax_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    return _normalize(q @ k.mT / math.sqrt(q.shape[-1]), seen)


def _capped_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    scores = kernel.cap * (q @ k.mT / math.sqrt(q.shape[-1]) / kernel.cap).tanh()
    return _normalize(scores, seen)


def _normalize(scores: Tensor, seen: Tensor) -> Tensor:
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp() * seen
    return weights / weights.sum(dim=-1, keepdim=True)


def _linear_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    if kernel.last_map:
        q, k, _ = kernel.last_map(q, k, k)
    scores = q @ k.mT * seen
    return scores / (scores.sum(dim=-1, keepdim=True) + kernel.eps)


def _cosformer_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    place = torch.arange(q.shape[-2], device=q.device)
    distance = (place[:, None] - place).to(q.dtype)
    scores = q @ k.mT * (math.pi / 2 / len(place) * distance).cos() * seen
    return scores / scores.sum(dim=-1, keepdim=True).clamp_min(1e-6)


def _performer_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    q, k = (x * q.shape[-1] ** -0.25 for x in (q, k))
    q, k = (x @ kernel.directions.T - x.square().sum(-1, keepdim=True) / 2 for x in (q, k))
    unseen = seen.mT == 0
    largest = k.masked_fill(unseen, -torch.inf).amax(dim=(-1, -2), keepdim=True)
    q = q - q.amax(dim=-1, keepdim=True).detach()
    k = (k - largest.detach()).masked_fill(unseen, 0)
    scores = (q.exp() + kernel.eps) @ (k.exp() + kernel.eps).mT * seen
    return scores / scores.sum(dim=-1, keepdim=True)


def _linformer_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    keys, values = kernel.keys, kernel.values  # (R, S')
    length, made_for = k.shape[-2], keys.shape[1]
    if length != made_for:
        at = torch.linspace(0, made_for - 1, length, device=q.device, dtype=q.dtype)
        corner = torch.arange(made_for, device=q.device)[:, None]
        resize = (1 - (at - corner).abs()).clamp_min(0) * made_for / length
        keys, values = keys @ resize, values @ resize
    scores = q @ (keys @ (k * seen.mT)).mT / math.sqrt(q.shape[-1])
    return scores.softmax(dim=-1) @ values * seen


def _orthoformer_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    q, k = (x * q.shape[-1] ** -0.25 for x in (q, k))
    directions = F.normalize(q.detach(), dim=-1)
    cosines = (directions @ directions.mT).abs()
    chosen = torch.zeros(q.shape[:-1], dtype=torch.bool, device=q.device)
    chosen[..., 0] = True
    for _ in range(min(kernel.num_landmarks, q.shape[-2]) - 1):
        largest = cosines.masked_fill(~chosen[..., None, :], 0).amax(dim=-1)
        following = largest.masked_fill(chosen, torch.inf).argmin(dim=-1, keepdim=True)
        chosen = chosen.scatter(-1, following, True)
    # All queries stand as landmarks, and those that were not chosen get no weight.
    landmarks = q if q.shape[-2] == 1 else q.detach()
    of_landmarks = (q @ landmarks.mT).masked_fill(~chosen[..., None, :], -torch.inf)
    of_keys = (landmarks @ k.mT).masked_fill(~seen, -torch.inf)
    return of_landmarks.softmax(dim=-1) @ of_keys.softmax(dim=-1)


def _lara_weights(kernel: Any, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    scale = q.shape[-1] ** -0.25
    count = min(kernel.num_samples, q.shape[-2], k.shape[-2])
    query_mean = kernel.query_proposal(_runs(q, count))  # (..., R, d)
    means = (query_mean + kernel.key_proposal(_runs(k, count))) * scale
    of_queries, of_keys, of_means = (_xi(x, means) for x in (q * scale, k * scale, means))
    own_density = of_means.diagonal(dim1=-1, dim2=-2)[..., None, :]  # r_c(w_c)
    balance = own_density / of_means.sum(dim=-2, keepdim=True)
    fit = (q @ query_mean.mT * scale**2).softmax(dim=-1)  # (..., S, R)
    share = (balance + fit - fit.mean(dim=-1, keepdim=True)).clamp_min(1e-8)
    total = of_keys.sum(dim=-2, keepdim=True)  # (..., 1, R)
    share = share * of_queries / own_density * total
    return share / share.sum(dim=-1, keepdim=True) @ (of_keys / total).mT


def _runs(x: Tensor, count: int) -> Tensor:
    """Average x (..., S, d) over runs of nearly equal length, which may share a token."""
    length = x.shape[-2]
    runs = [slice(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
    return torch.stack([x[..., run, :].mean(dim=-2) for run in runs], dim=-2)


def _xi(x: Tensor, samples: Tensor) -> Tensor:
    """Return ``exp(w.x - |x|^2 / 2)`` for x (..., S, d) and samples w (..., R, d): (..., S, R)."""
    return (x @ samples.mT - x.square().sum(dim=-1, keepdim=True) / 2).exp()


WEIGHTS: dict[str, Callable[[Any, Tensor, Tensor, Tensor], Tensor]] = {
    "SoftmaxKernel": _softmax_weights,
    "CappedKernel": _capped_weights,
    "LinearKernel": _linear_weights,
    "CosformerKernel": _cosformer_weights,
    "PerformerKernel": _performer_weights,
    "LinformerKernel": _linformer_weights,
    "OrthoformerKernel": _orthoformer_weights,
    "LaraKernel": _lara_weights,
}
