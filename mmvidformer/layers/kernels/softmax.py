"""Softmax attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.masks import MASK_KINDS, Causal, Mask


class SoftmaxKernel(nn.Module):
    """Scaled dot-product attention, ``softmax(q k^T / sqrt(d)) v``, with the fused operator.

    Vaswani et al. 2017, eq. 1.

    Attributes:
        short: Number of keys up to which matmuls replace the fused operator, on a CPU and without
            gradients only. The operator works on tiles that short sequences do not fill.
            ``models.inference`` sets it; 0 means never.

    Args:
        head_dim: Width d of a head.
        dropout: Dropout rate of the attention weights in training.
    """

    masks = frozenset(MASK_KINDS)

    def __init__(self, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale = head_dim**-0.5
        self.dropout = dropout
        self.feature_map = None
        self.short = 0

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        """Attend.

        Args:
            q: Queries (..., n, S, d).
            k: Keys (..., n, S', d).
            v: Values (..., n, S', d).
            mask: True for keys that a query attends to; broadcasts to (..., n, S, S');
                or a ``Causal`` mask, for S = S'.

        Returns:
            Output (..., n, S, d).
        """
        if mask is None and self._is_short(q, k):
            scores = q @ k.transpose(-1, -2)
            return (scores if self.scale == 1.0 else self.scale * scores).softmax(dim=-1) @ v
        dropout = self.dropout if self.training else 0.0
        causal = isinstance(mask, Causal) and mask.step == 1
        if isinstance(mask, Causal):
            steps = torch.arange(q.shape[-2], device=q.device) // mask.step
            mask = None if causal else steps[:, None] >= steps
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=self.scale
        )

    def _is_short(self, q: Tensor, k: Tensor) -> bool:
        plain = not (self.training or torch.is_grad_enabled()) and q.device.type == "cpu"
        return plain and 0 < self.short and k.shape[-2] <= self.short
