"""Soft suppression of segments that overlap better ones."""

import torch
from torch import Tensor

SAME_MOMENT = 0.5  # seconds within which moments of a class are one


def soft_nms(
    segments: Tensor, scores: Tensor, labels: Tensor, sigma: float, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the best segment again and again, and lower the scores of its class that overlap it.

    A score is multiplied by ``exp(-iou^2 / sigma)``.

    Returns:
        At most ``count`` segments (n, 2), scores and labels (n,), in the order taken.
    """
    segments, scores, labels = segments.cpu(), scores.cpu().clone(), labels.cpu()
    taken, order = [], []
    for _ in range(min(count, len(scores))):
        best = int(scores.argmax())
        order.append(best)
        taken.append(scores[best].item())
        iou = segment_iou(segments[best], segments)
        scores *= torch.where(labels == labels[best], (-iou.square() / sigma).exp(), 1.0)
        scores[best] = -1
    return segments[order], scores.new_tensor(taken), labels[order]


def segment_iou(segment: Tensor, others: Tensor) -> Tensor:
    """Return the intersection over union (n,) of a segment (2,) and others (n, 2).

    Of moments, which have no length, it is 1 if they are at most 0.5 s apart.
    """
    shared = torch.minimum(segment[1], others[:, 1]) - torch.maximum(segment[0], others[:, 0])
    shared = shared.clamp(min=0)
    iou = shared / (segment.diff() + others.diff(dim=1)[:, 0] - shared)
    are_moments = (segment[1] == segment[0]) & (others[:, 1] == others[:, 0])
    is_near = (others[:, 0] - segment[0]).abs() <= SAME_MOMENT
    return torch.where(are_moments, is_near.to(iou), iou)
