import torch
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.kernels.softmax import SoftmaxKernel
from mmvidformer.layers.masks import Causal, Mask


class CappedKernel(SoftmaxKernel):
    """Softmax attention with bounded scores, ``softmax(c tanh(q k^T / (c sqrt(d)))) v``.

    VideoPrism (Zhao et al. 2024), and Gemma 2. The fused operator of PyTorch has no bound, so the
    scores of all pairs are in memory.

    Args:
        head_dim: Width d of a head.
        dropout: Dropout rate of the attention weights in training.
        cap: Largest absolute value c of a score.

    Raises:
        UserError: If ``cap`` is not positive.
    """

    def __init__(self, head_dim: int, dropout: float = 0.0, cap: float = 50.0) -> None:
        super().__init__(head_dim, dropout)
        if cap <= 0:
            raise UserError(f"cap of scores must be positive, got {cap}")
        self.cap = cap

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        """Attend; see ``Kernel``. A bounded past costs in proportion to it."""
        if isinstance(mask, Causal):
            return self._attend_causal(q, k, v, mask)
        scores = (q * (self.scale / self.cap)) @ k.transpose(-1, -2)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).tanh() * self.cap
        if mask is not None:
            scores = scores + mask.to(scores.dtype).log()  # n equal keys weigh n times one
        weights = scores.softmax(dim=-1)
        if self.dropout and self.training:
            weights = torch.dropout(weights, self.dropout, train=True)
        return weights.to(v.dtype) @ v

    def _attend_to_earlier(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        earlier = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        return self.forward(q, k, v, earlier)
