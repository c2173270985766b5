"""Linear attention with a feature map."""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.kernels.base import (
    LinearCostKernel,
    full_precision,
    without_autocast,
    zero_masked,
)
from mmvidformer.layers.masks import Causal, Mask
from mmvidformer.layers.stream import Past
from mmvidformer.lookup import look_up

# Maps of queries and keys; all but the identity are non-negative.
FEATURE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "elu": lambda x: torch.where(x > 0, x + 1, x.clamp(max=1).exp()),  # F.elu(x) + 1 is inexact
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}

CHUNK = 128  # tokens of a causal sequence that attend to each other pair by pair


class RunningSums(NamedTuple):
    """Sums over the frames of a stream: of ``k^T v`` (..., 1, m, d) and of k (..., 1, m, 1)."""

    product: Tensor
    key: Tensor


class FeatureMap(nn.Module):
    """Map queries and keys elementwise; values pass unchanged.

    Args:
        name: ``'relu'``, ``'elu'`` (ELU + 1), ``'sigmoid'`` or ``'identity'``.
        offset: Number that is added after the map.

    Raises:
        KeyError: If there is no feature map of this name.
    """

    def __init__(self, name: str, offset: float = 0.0) -> None:
        super().__init__()
        self.name = look_up(tuple(FEATURE_MAPS), name, "feature map")
        self.offset = offset

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map queries and keys (..., n, d)."""
        function = FEATURE_MAPS[self.name]
        return function(q) + self.offset, function(k) + self.offset, v

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"{self.name}, offset={self.offset:g}"


def weighted_sums(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Compute the sums of linear attention, as ``q (k^T v)`` or, if that costs more, ``(q k^T) v``.

    ``(q k^T) v`` costs less for sequences shorter than m, such as 16 frames if m is 64. On the meta
    device, where operations are counted, ``q (k^T v)`` is computed, as the papers count it.

    Products of bfloat16 add up in float32 and are rounded at their end. All other sums are float32.

    Args:
        q: Mapped queries (..., S, m), with m features per token.
        k: Mapped keys (..., S', m).
        v: Values (..., S', d).
        mask: True for keys that are attended to, or how many times they count, broadcasts to
            (..., 1, S'); a ``Causal`` mask (``causal_sums``); or None.

    Returns:
        ``sum_j (q_i.k_j) v_j`` (..., S, d) and ``sum_j q_i.k_j`` (..., S, 1), the latter in float32
        (float64 for such inputs).
    """
    if isinstance(mask, Causal):
        return causal_sums(q, k, v, mask.step)[:2]
    k = zero_masked(k, mask)
    sum_type = torch.promote_types(k.dtype, torch.float32)
    queries, keys, features, dim = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
    cheaper = queries * keys * (features + dim) < (queries + keys) * features * dim
    if cheaper and not q.is_meta:
        scores = q @ k.transpose(-1, -2)
        return scores @ v, scores.sum(dim=-1, keepdim=True, dtype=sum_type)
    total = k.sum(dim=-2, keepdim=True, dtype=sum_type).transpose(-1, -2)  # (..., m, 1)
    return q @ (k.transpose(-1, -2) @ v), q.to(sum_type) @ total


def causal_sums(
    q: Tensor, k: Tensor, v: Tensor, step: int, past: Past | None = None
) -> tuple[Tensor, Tensor, Past]:
    """Compute ``weighted_sums`` for queries that attend to their own and to earlier frames.

    A frame is ``step`` successive tokens. Chunks of about ``CHUNK`` tokens attend to themselves as
    ``(q k^T) v``, and to those before as ``q`` times a running sum of ``k^T v``, so time and memory
    are linear in S. In a stream, ``past`` has the sums of ``k^T v`` (..., 1, m, d) and of k
    (..., 1, m, 1) over previous frames, or is ``()`` at its start, and the new sums are returned
    too. Without a stream it is None.
    """
    frames = q.shape[-2] // step
    most = 1 if q.is_meta else max(CHUNK // step, 1)  # frames of a chunk; see ``weighted_sums``
    chunks = -(-frames // most)
    size = -(-frames // chunks) * step
    padding = chunks * size - q.shape[-2]
    if padding:
        q, k, v = (F.pad(x, (0, 0, 0, padding)) for x in (q, k, v))
    q, k, v = (x.unflatten(-2, (chunks, size)) for x in (q, k, v))
    pairs = Causal(step).pairs(size, size, q.device)  # None: a chunk is a frame, and sees itself
    parts: list[list[Tensor]] = []
    after: Past = ()
    if pairs is not None:
        scores = (q @ k.transpose(-1, -2)).masked_fill_(~pairs, 0)
        parts.append([scores @ v, scores.sum(dim=-1, keepdim=True)])
    if pairs is None or chunks > 1 or past is not None:
        of_chunks = k.transpose(-1, -2) @ v, k.sum(dim=-2)[..., None]
        start = past or [torch.zeros_like(x[..., :1, :, :]) for x in of_chunks]
        pairs_of_sums = zip(start, of_chunks, strict=True)
        sums = [torch.cat(pair, dim=-3).cumsum(dim=-3) for pair in pairs_of_sums]
        after = () if past is None else tuple(x[..., -1:, :, :] for x in sums)
        parts.append([q @ (x[..., 1:, :, :] if pairs is None else x[..., :-1, :, :]) for x in sums])
    both = (reduce(torch.add, column) for column in zip(*parts, strict=True))
    value, weight = (x.flatten(-3, -2)[..., : frames * step, :] for x in both)
    return value, weight, after


class LinearKernel(LinearCostKernel):
    """Linear attention, ``y_i = sum_j (q'_i.k'_j) v_j / (sum_j q'_i.k'_j + eps)``.

    ``q' = f(q) + offset``, and ``k'`` likewise. Feature fixation, eq. 3, with ReLU; Katharopoulos
    et al. 2020 ("Linear Trans."), section 3.2, with ELU + 1 and no offset. Neither scales q.k.

    Inputs in bfloat16 are multiplied as they are, but not in causal patterns, nor with features of
    both signs, whose sums may cancel, or with ``map_last``.

    Args:
        head_dim: Width d of a head.
        dropout: Must be 0.
        feature: Feature map f: ``'relu'``, ``'elu'`` (ELU + 1), ``'sigmoid'``, or ``'identity'``,
            with which the normalizer may be near 0 (feature fixation, section 5.3: it does not
            converge).
        offset: Whether to add ``d^-0.5``, the usual scale of the scores, to every feature. The
            official code of feature fixation does, the papers do not. Default: with ReLU only.
        eps: Number added to the normalizer.
        map_last: Whether gates and shifts come before the feature map instead of after it, so that
            they read and change the queries and keys as projected (feature fixation, footnote 3).
    """

    # Not rotary: what is turned before the feature map is not relative, and after it negative.
    supports = frozenset(
        {"some_queries", "other_keys", "keys", "padding", "causal", "counts", "any_order"}
    )

    def __init__(
        self,
        head_dim: int,
        dropout: float = 0.0,
        feature: str = "relu",
        offset: bool | None = None,
        eps: float = 1e-6,
        map_last: bool = False,
    ) -> None:
        super().__init__(head_dim, dropout)
        offset = feature == "relu" if offset is None else offset
        features = FeatureMap(feature, head_dim**-0.5 if offset else 0.0)
        self.feature_map = None if map_last else features
        self.last_map = features if map_last else None
        self.half_products = feature != "identity" and not map_last
        self.eps = eps

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Attend; ``Attention`` has applied ``feature_map``, if there is one."""
        q, k, v = self.last_map(q, k, v) if self.last_map else (q, k, v)
        value, weight = weighted_sums(q, k, v, mask)
        return value / (weight + self.eps)

    def resume(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Causal, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Attend in the next frames; the past has the sums over all frames (``causal_sums``)."""
        with without_autocast(v.device):
            q, k, values = full_precision(q, k, v)
            q, k, values = self.last_map(q, k, values) if self.last_map else (q, k, values)
            value, weight, past = causal_sums(q, k, values, mask.step, past or ())
            return (value / (weight + self.eps)).to(v.dtype), RunningSums(*past)
