import torch
from torch import Tensor, nn

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.layers.kernels.linear import weighted_sums


def orthogonal_gaussian(rows: int, dim: int, device: torch.device | None = None) -> Tensor:
    """Draw vectors (rows, dim) that are orthogonal in blocks of ``dim``.

    Each row has the distribution of a standard normal vector: a uniform direction and a
    chi-distributed norm. Choromanski et al. 2021, section 2.4.
    """
    starts = range(0, rows, dim)
    blocks = [nn.init.orthogonal_(torch.empty(dim, dim, device=device)).T for _ in starts]
    norms = torch.randn(rows, dim, device=device).norm(dim=1, keepdim=True)
    return torch.cat(blocks)[:rows] * norms


@KERNELS.register("performer")
class PerformerKernel(LinearCostKernel):
    """Performer (FAVOR+), ``y_i = sum_j (q'_i.k'_j) v_j / sum_j q'_i.k'_j``.

    ``x' = m^-1/2 (exp(w.x - |x|^2 / 2 - c) + eps)`` over m random directions w, with queries and
    keys scaled by ``d^-1/4``. The expectation of q'.k' is ``exp(q.k / sqrt(d))``, up to a factor
    that cancels. c is the largest exponent over the features of a query, or over all keys of a
    group. Choromanski et al. 2021, section 2.3 and lemma 1.

    New directions are drawn in each forward pass of training. Evaluation uses those of a buffer,
    drawn at the start, so its outputs are repeatable and the same in all processes. Gates weight
    queries and keys, not their features.

    Args:
        num_features: Number of directions m. 64, the width of a head, gives the operations that the
            paper on feature fixation counts; Motionformer uses 256.
        eps: Number added to the features, so that none is zero.
    """

    supports = LinearCostKernel.supports | {"some_queries", "counts", "any_order"}
    directions: Tensor

    def __init__(
        self, head_dim: int, dropout: float = 0.0, num_features: int = 64, eps: float = 1e-6
    ) -> None:
        super().__init__(head_dim, dropout, num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.register_buffer("directions", orthogonal_gaussian(num_features, head_dim))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; see ``forward``."""
        directions = self.directions
        if self.training:
            # Not kept in the buffer: processes draw differently, and MMEngine averages buffers.
            directions = orthogonal_gaussian(self.num_features, self.head_dim, q.device)
        q, k = (self._exponents(x, directions.to(x.dtype)) for x in (q, k))
        q = q - q.amax(dim=-1, keepdim=True).detach()
        if mask is not None:  # before the exponential, which could overflow for a masked key
            k = k.masked_fill(mask.transpose(-1, -2) == 0, -torch.inf)
        k = k - k.amax(dim=(-1, -2), keepdim=True).detach()
        q, k = ((x.exp() + self.eps) * self.num_features**-0.5 for x in (q, k))
        value, weight = weighted_sums(q, k, v, mask)
        return value / weight

    def _exponents(self, x: Tensor, directions: Tensor) -> Tensor:
        x = x * self.head_dim**-0.25
        return x @ directions.T - x.square().sum(dim=-1, keepdim=True) / 2
