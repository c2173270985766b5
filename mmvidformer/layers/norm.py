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
    "norm",
    {"layer": partial(nn.LayerNorm, eps=1e-6), "rms": RMSNorm, "none": nn.Identity},
    nn.Module,
)


class QueryKeyNorm(nn.Module):
    """Normalize the queries and the keys, of each head or of all heads as one vector.

    Args:
        head_dim: Width d of a head.
        num_heads: Number n of heads.
        norm: A name in ``NORMS``, or a dictionary with options. One more option is ``whole``. By
            default each head is normalized, and they share the weights (Dehghani et al. 2023,
            ViT-22B); with ``whole=True`` all n d channels are (InternVideo).
    """

    def __init__(self, head_dim: int, num_heads: int, norm: str | Mapping = "layer") -> None:
        super().__init__()
        options = {"type": norm} if isinstance(norm, str) else dict(norm)
        self.whole = bool(options.pop("whole", False))
        width = head_dim * num_heads if self.whole else head_dim
        self.q = NORMS.build(options, normalized_shape=width)
        self.k = NORMS.build(options, normalized_shape=width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalize (..., n, d); values pass unchanged."""
        return self._normalize(self.q, q), self._normalize(self.k, k), v

    def _normalize(self, norm: nn.Module, x: Tensor) -> Tensor:
        if self.whole:
            return norm(x.flatten(-2)).unflatten(-1, x.shape[-2:]).to(x.dtype)
        return norm(x).to(x.dtype)


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
