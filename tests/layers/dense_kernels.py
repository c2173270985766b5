"""Kernels by their formulas; one pair of tokens at a time if the formula is a sum over pairs."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from mmvidformer.layers.kernels.linear import FEATURE_MAPS

D = 6  # width of a head

# Weights (S, S') of one head, with weights @ v as the output.


def linear_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    features = kernel.feature_map or kernel.last_map
    function, offset = FEATURE_MAPS[features.name], features.offset
    weights = torch.stack(
        [torch.stack([(function(a) + offset) @ (function(b) + offset) for b in k]) for a in q]
    )
    return weights / (weights.sum(1, keepdim=True) + kernel.eps)


def cosformer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    place = torch.arange(len(q)).double()
    distance = place[:, None] - place
    weights = F.relu(q) @ F.relu(k).T * torch.cos(math.pi / 2 * distance / len(q))
    return weights / weights.sum(1, keepdim=True).clamp_min(1e-6)


def performer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    def exponents(x: Tensor) -> Tensor:
        x = x / D**0.25
        return torch.stack(
            [torch.stack([w @ row - row @ row / 2 for w in kernel.directions]) for row in x]
        )

    q, k = exponents(q), exponents(k)
    q = (q - q.amax(1, keepdim=True).detach()).exp() + kernel.eps
    k = (k - k.max().detach()).exp() + kernel.eps
    weights = q @ k.T / kernel.num_features
    return weights / weights.sum(1, keepdim=True)


def linformer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    def resized(x: Tensor) -> Tensor:
        made_for, columns = x.shape[1], []
        for j in range(len(k)):
            at = j * (made_for - 1) / (len(k) - 1)
            low = min(int(at), made_for - 2)
            columns.append(x[:, low] * (low + 1 - at) + x[:, low + 1] * (at - low))
        return torch.stack(columns, 1) * (made_for / len(k))

    return (q @ (resized(kernel.keys) @ k).T / D**0.5).softmax(-1) @ resized(kernel.values)


def orthoformer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    q, k = q / D**0.25, k / D**0.25
    chosen = [0]
    while len(chosen) < min(kernel.num_landmarks, len(q)):
        worst = {
            i: max(abs(F.cosine_similarity(q[i], q[j], dim=0).item()) for j in chosen)
            for i in range(len(q))
            if i not in chosen
        }
        chosen.append(min(worst, key=worst.get))
    landmarks = q[chosen].detach()
    return (q @ landmarks.T).softmax(-1) @ (landmarks @ k.T).softmax(-1)


def lara_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    def pooled(x: Tensor) -> Tensor:
        count = kernel.num_samples
        edges = [(i * len(x) // count, -(-(i + 1) * len(x) // count)) for i in range(count)]
        return torch.stack([x[a:b].mean(0) for a, b in edges])

    def standard_normal_ratio(w: Tensor, mean: Tensor) -> Tensor:
        def density(center: Tensor) -> Independent:
            return Independent(Normal(center, torch.ones_like(center)), 1)

        return (density(mean).log_prob(w) - density(torch.zeros_like(mean)).log_prob(w)).exp()

    query_mean, key_mean = kernel.query_proposal(pooled(q)), kernel.key_proposal(pooled(k))
    means = (query_mean + key_mean) / D**0.25
    fit = (q @ query_mean.T / D**0.5).softmax(1)
    rows, xi_k = [], []
    for w in means:
        xi_k.append((k / D**0.25 @ w - k.square().sum(1) / D**0.5 / 2).exp())
    for n in range(len(q)):
        x = q[n] / D**0.25
        row = 0.0
        total = 0.0
        for c, w in enumerate(means):
            ratios = torch.stack([standard_normal_ratio(w, mean) for mean in means])
            share = (ratios[c] / ratios.sum() + fit[n, c] - fit[n].mean()).clamp_min(1e-8)
            weight = share * (w @ x - x @ x / 2).exp() / ratios[c] * xi_k[c].sum()
            row = row + weight * xi_k[c] / xi_k[c].sum()
            total = total + weight
        rows.append(row / total)
    return torch.stack(rows)


WEIGHTS: dict[str, Callable[[nn.Module, Tensor, Tensor], Tensor]] = {
    "linear": linear_weights,
    "cosformer": cosformer_weights,
    "performer": performer_weights,
    "linformer": linformer_weights,
    "orthoformer": orthoformer_weights,
    "lara": lara_weights,
}


def dense(kernel: nn.Module, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    outs = [
        WEIGHTS[name](kernel, q[b, h], k[b, h]) @ v[b, h]
        for b in range(q.shape[0])
        for h in range(q.shape[1])
    ]
    return torch.stack(outs).unflatten(0, q.shape[:2])
