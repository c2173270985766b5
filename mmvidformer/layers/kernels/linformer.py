"""Linformer: keys and values are projected along the sequence to a fixed number."""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.kernels.base import LinearCostKernel, hide

logger = logging.getLogger("mmvidformer")


class LinformerKernel(LinearCostKernel):
    """Linformer, ``y = softmax(q (E k)^T / sqrt(d)) (F v)``.

    E and F (rank x S') are learned and shared by the heads. Wang et al. 2020, eq. 7. A sequence of
    another length than they were made for gets them resized linearly along the sequence and
    scaled by ``length / S'``, so that a projected key stays as large as it was; for a pattern of
    several axes that is along the flattened sequence. The same happens to weights of another
    length when they are loaded. A class token in the group is its first place. Masked keys count
    as zero.

    Args:
        head_dim: Width d of a head.
        dropout: Must be 0.
        length: Keys S' of a group that E and F are made for.
        rank: Projected keys and values. The paper on feature fixation counts 256, for attention
            over time too, where that is more than there are frames.

    Raises:
        ValueError: If no length is given.
    """

    needs_length = True

    def __init__(
        self, head_dim: int, dropout: float = 0.0, length: int | None = None, rank: int = 256
    ) -> None:
        super().__init__(head_dim, dropout)
        if not length:
            raise ValueError(
                "Linformer's projections need the number of keys of a group, "
                f"as in dict(type='linformer', length=196); got length={length}"
            )
        self.keys = nn.Parameter(torch.randn(rank, length) * length**-0.5)
        self.values = nn.Parameter(torch.randn(rank, length) * length**-0.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; see ``forward``."""
        k = _resized(self.keys, k.shape[-2]).to(k.dtype) @ hide(k, mask)
        v = _resized(self.values, v.shape[-2]).to(v.dtype) @ hide(v, mask)
        return F.scaled_dot_product_attention(q, k, v, scale=self.head_dim**-0.5)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        for name, own in (("keys", self.keys), ("values", self.values)):
            loaded = state_dict.get(prefix + name)
            if loaded is None or loaded.dim() != 2 or loaded.shape[1] == own.shape[1]:
                continue
            state_dict[prefix + name] = _resized(loaded, own.shape[1])
            logger.warning(
                "projection %s%s of %d keys was resized to %d",
                prefix,
                name,
                loaded.shape[1],
                own.shape[1],
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


def _resized(weights: Tensor, length: int) -> Tensor:
    """Weights (rank, length) for a sequence of another length."""
    made_for = weights.shape[1]
    if length == made_for:
        return weights
    resized = F.interpolate(weights[None], size=length, mode="linear", align_corners=True)
    return resized[0] * (made_for / length)
