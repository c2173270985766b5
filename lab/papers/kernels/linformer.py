import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel, zero_masked

logger = logging.getLogger("mmvidformer")


@KERNELS.register("linformer")
class LinformerKernel(LinearCostKernel):
    """Linformer, ``y = softmax(q (E k)^T / sqrt(d)) (F v)``.

    E and F (rank x S') are learned and shared by the heads. Wang et al. 2020, eq. 7. For a sequence
    of another length they are resized linearly along the (flattened) sequence and scaled by
    ``length / S'``, so that projected keys keep their magnitude. Weights of another length are
    resized in the same way when they are loaded. A class token comes first. Masked keys count as
    zero.

    Args:
        length: Number of keys S' of a group that E and F are made for.
        rank: Number of projected keys and values; 256 in the paper on feature fixation.
    """

    supports = LinearCostKernel.supports | {"some_queries"}
    needs_length = True

    def __init__(
        self, head_dim: int, dropout: float = 0.0, *, length: int, rank: int = 256
    ) -> None:
        super().__init__(head_dim, dropout, length=length, rank=rank)
        self.keys = nn.Parameter(torch.randn(rank, length) * length**-0.5)
        self.values = nn.Parameter(torch.randn(rank, length) * length**-0.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; see ``forward``."""
        k = _resized(self.keys, k.shape[-2]).to(k.dtype) @ zero_masked(k, mask)
        v = _resized(self.values, v.shape[-2]).to(v.dtype) @ zero_masked(v, mask)
        return F.scaled_dot_product_attention(q, k, v, scale=self.head_dim**-0.5)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        length = self.keys.shape[1]
        for name in ("keys", "values"):
            loaded = state_dict.get(prefix + name)
            if loaded is None or loaded.dim() != 2 or loaded.shape[1] == length:
                continue
            state_dict[prefix + name] = _resized(loaded, length)
            text = f"length {loaded.shape[1]} was resized to {length}"
            logger.warning("projection %s of %s", prefix + name, text)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _resized(weights: Tensor, length: int) -> Tensor:
    """Resize weights (rank, S') to a sequence of another length."""
    made_for = weights.shape[1]
    if length == made_for:
        return weights
    resized = F.interpolate(weights[None], size=length, mode="linear", align_corners=True)
    return resized[0] * (made_for / length)
