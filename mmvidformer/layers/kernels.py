"""How queries, keys and values become an output, once the tokens are grouped."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn


class SoftmaxKernel(nn.Module):
    """Scaled dot-product attention, ``softmax(q k^T / sqrt(d)) v``, by the fused operator.

    Vaswani et al. 2017, eq. 1.

    Args:
        head_dim: Width d of a head.
        dropout: Dropout on the attention weights while training.
    """

    def __init__(self, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale = head_dim**-0.5
        self.dropout = dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            q: Queries (..., n, S, d).
            k: Keys (..., n, S', d).
            v: Values (..., n, S', d).
            mask: True where a key is seen; broadcasts to (..., n, S, S').

        Returns:
            Output (..., n, S, d).
        """
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, scale=self.scale
        )


KERNELS: dict[str, Callable[..., nn.Module]] = {"softmax": SoftmaxKernel}


def build_kernel(name: str, head_dim: int, dropout: float = 0.0) -> nn.Module:
    """Build a kernel by name.

    Raises:
        KeyError: If there is no such kernel; the message lists the names.
    """
    if name not in KERNELS:
        raise KeyError(f"no attention kernel named {name!r}; known are {sorted(KERNELS)}")
    return KERNELS[name](head_dim=head_dim, dropout=dropout)
