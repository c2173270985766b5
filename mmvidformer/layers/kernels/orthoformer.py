"""Orthoformer: attention through a few landmarks, chosen among the queries."""

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers.kernels.base import LinearCostKernel


@torch.no_grad()
def choose_landmarks(q: Tensor, count: int, first: Tensor) -> Tensor:
    """Choose queries that are as orthogonal to each other as possible, one after the other.

    The next one has the least value of its greatest absolute cosine with those chosen
    (Patrick et al. 2021, algorithm 1).

    Args:
        q: Queries (..., S, d).
        count: How many, at most S.
        first: Place of the first in each sequence (...).

    Returns:
        Their places (..., count).
    """
    directions = F.normalize(q, dim=-1)
    place = first[..., None]
    places = [place]
    worst = q.new_zeros(q.shape[:-1])
    for _ in range(count - 1):
        index = place[..., None].expand(*place.shape, q.shape[-1])
        chosen = directions.gather(-2, index)  # (..., 1, d)
        cosine = (directions @ chosen.transpose(-1, -2))[..., 0].abs()
        worst = worst.maximum(cosine).scatter(-1, place, torch.inf)
        place = worst.argmin(dim=-1, keepdim=True)
        places.append(place)
    return torch.cat(places, dim=-1)


class OrthoformerKernel(LinearCostKernel):
    """Orthoformer, ``y = softmax(q l^T) (softmax(l k^T) v)`` with landmarks l.

    q and k are first multiplied by ``d^-1/4``. Patrick et al. 2021 (Motionformer), section 3.3.
    The landmarks are queries of the group, chosen by ``choose_landmarks`` and held constant in the
    backward pass, as in the official code. The first is random while training; in evaluation it is
    the first query, so that outputs repeat. A group of fewer queries uses all of them.

    Args:
        head_dim: Width d of a head.
        dropout: Must be 0.
        num_landmarks: Landmarks R. Motionformer's configs have 128, its code's default and the
            code of feature fixation 64.
    """

    def __init__(self, head_dim: int, dropout: float = 0.0, num_landmarks: int = 64) -> None:
        super().__init__(head_dim, dropout)
        self.num_landmarks = num_landmarks

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; see ``forward``."""
        q, k = (x * self.head_dim**-0.25 for x in (q, k))
        length = q.shape[-2]
        first = torch.zeros(q.shape[:-2], dtype=torch.long, device=q.device)
        first = torch.randint_like(first, length) if self.training else first
        places = choose_landmarks(q, min(self.num_landmarks, length), first)
        landmarks = q.detach().gather(-2, places[..., None].expand(*places.shape, q.shape[-1]))
        inner = F.scaled_dot_product_attention(landmarks, k, v, attn_mask=mask, scale=1.0)
        return F.scaled_dot_product_attention(q, landmarks, inner, scale=1.0)
