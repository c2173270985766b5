import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel


@torch.no_grad()
def choose_landmarks(q: Tensor, count: int, first: Tensor) -> Tensor:
    """Choose queries one by one that are as orthogonal to each other as possible.

    The next query is the one whose largest absolute cosine with the chosen ones is smallest
    (Patrick et al. 2021, algorithm 1).

    Args:
        q: Queries (..., S, d).
        count: Number of queries to choose, at most S.
        first: Index of the first choice in each sequence (...).

    Returns:
        Indices of the chosen queries (..., count).
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


@KERNELS.register("orthoformer")
class OrthoformerKernel(LinearCostKernel):
    """Orthoformer, ``y = softmax(q l^T) (softmax(l k^T) v)`` with landmarks l.

    q and k are scaled by ``d^-1/4`` first. Patrick et al. 2021 (Motionformer), section 3.3. The
    landmarks are queries of the group, chosen by ``choose_landmarks`` and detached in the backward
    pass, as in the official code. The first choice is random in training, and the first query in
    evaluation, so that outputs are repeatable. A group with fewer queries uses all of them. A
    single one is not detached, so its attention is the softmax and has its gradients.

    Args:
        num_landmarks: Number of landmarks R. 128 in Motionformer's configs; 64 is the default of
            its code, and the number in the code of feature fixation.
    """

    # Not padding: among the queries, it would be chosen as landmarks.
    supports = frozenset({"other_keys", "keys", "rotary"})

    def __init__(self, head_dim: int, dropout: float = 0.0, num_landmarks: int = 64) -> None:
        super().__init__(head_dim, dropout, num_landmarks=num_landmarks)
        self.num_landmarks = num_landmarks

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; see ``forward``."""
        q, k = (x * self.head_dim**-0.25 for x in (q, k))
        length = q.shape[-2]
        first = torch.zeros(q.shape[:-2], dtype=torch.long, device=q.device)
        first = torch.randint_like(first, length) if self.training else first
        places = choose_landmarks(q, min(self.num_landmarks, length), first)
        source = q if length == 1 else q.detach()
        landmarks = source.gather(-2, places[..., None].expand(*places.shape, q.shape[-1]))
        inner = F.scaled_dot_product_attention(landmarks, k, v, attn_mask=mask, scale=1.0)
        return F.scaled_dot_product_attention(q, landmarks, inner, scale=1.0)
