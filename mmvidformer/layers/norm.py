from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.lookup import Registry


class RMSNorm(nn.LayerNorm):
    """Divide by the root mean square, ``x / sqrt(mean(x^2) + eps) * weight``.

    Zhang and Sennrich 2019. Unlike ``nn.RMSNorm``, it is a ``LayerNorm``, so whatever treats layer
    norms on their own, such as MMEngine's ``norm_decay_mult``, applies to it too.

    Args:
        normalized_shape: Token width D.
        eps: Number added to the mean square.
    """

    def __init__(self, normalized_shape: int, eps: float = 1e-6) -> None:
        super().__init__(normalized_shape, eps, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize (..., D)."""
        # Under autocast weights are wider than inputs, which the fused operator does not take.
        return F.rms_norm(input, self.normalized_shape, self.weight.to(input.dtype), self.eps)


NORMS: Registry[nn.Module] = Registry(
    "norm", {"layer": partial(nn.LayerNorm, eps=1e-6), "rms": RMSNorm}, nn.Module
)


class QueryKeyNorm(nn.Module):
    """Normalize the queries and the keys of each head (Dehghani et al. 2023, ViT-22B).

    Args:
        head_dim: Width d of a head.
        norm: A name in ``NORMS``, or a dictionary with options. The heads share its weights.
    """

    def __init__(self, head_dim: int, norm: str | Mapping = "layer") -> None:
        super().__init__()
        self.q = NORMS.build(norm, normalized_shape=head_dim)
        self.k = NORMS.build(norm, normalized_shape=head_dim)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalize (..., n, d); values pass unchanged."""
        return self.q(q).to(q.dtype), self.k(k).to(k.dtype), v


class LayerScale(nn.Module):
    """Multiply the channels of an update by learned numbers (Touvron et al. 2021, CaiT).

    Args:
        dim: Token width D.
        value: Initial value of the numbers.
    """

    def __init__(self, dim: int, value: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), float(value)))

    def forward(self, x: Tensor) -> Tensor:
        """Scale (..., D)."""
        return x * self.gamma


def build_scale(dim: int, value: float | None) -> LayerScale | None:
    """Build a ``LayerScale``; for None there is none."""
    return None if value is None else LayerScale(dim, value)
