"""The attention that the others stand in for."""

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
        self.feature_map = None

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
