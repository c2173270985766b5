import math

import torch
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.layers.kernels.linear import FeatureMap, weighted_sums
from mmvidformer.layers.masks import Mask


@KERNELS.register("cosformer")
class CosformerKernel(LinearCostKernel):
    """cosFormer, ``y_i = sum_j w_ij v_j / max(sum_j w_ij, 1e-6)``.

    ``w_ij = relu(q_i).relu(k_j) cos(pi/2 (i - j) / M)`` with i, j = 1 ... M places in the
    sequence, which splits into features ``[x sin, x cos]`` of width 2d. Qin et al. 2022,
    section 3. Places follow the order of the tokens in a group; a class token comes first.
    """

    # Not rotary, as LinearKernel. It cannot resume: its weights depend on the length M.
    supports = frozenset({"padding", "causal"})

    def __init__(self, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__(head_dim, dropout)
        self.feature_map = FeatureMap("relu")

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Attend with queries and keys to which ``Attention`` has applied ``feature_map``."""
        length = q.shape[-2]
        if (keys := k.shape[-2]) != length:
            raise UserError(f"cosFormer needs {length} keys, as many as queries, got {keys}")
        place = torch.arange(1, length + 1, device=q.device, dtype=q.dtype)
        angle = (math.pi / 2 / length * place)[:, None]
        q, k = (torch.cat([x * angle.sin(), x * angle.cos()], dim=-1) for x in (q, k))
        value, weight = weighted_sums(q, k, v, mask)
        return value / weight.clamp_min(1e-6)
