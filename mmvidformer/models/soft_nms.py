"""Soft suppression of segments that overlap better ones."""

import torch
from torch import Tensor

SAME_MOMENT = 0.5  # seconds within which moments of a class are one


def soft_nms(
    segments: Tensor,
    scores: Tensor,
    labels: Tensor,
    sigma: float,
    count: int,
    per_class: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the best segment again and again, and lower the scores of those that overlap it.

    A score is multiplied by ``exp(-iou^2 / sigma)``; with ``per_class`` only those of its class.

    Returns:
        At most ``count`` segments (n, 2), scores and labels (n,), in the order taken.
    """
    segments, scores, labels = segments.cpu(), scores.cpu().clone(), labels.cpu()
    groups = labels if per_class else torch.zeros_like(labels)
    taken, order = [], []
    for _ in range(min(count, len(scores))):
        best = int(scores.argmax())
        order.append(best)
        taken.append(scores[best].item())
        iou = segment_iou(segments[best], segments)
        scores *= torch.where(groups == groups[best], (-iou.square() / sigma).exp(), 1.0)
        scores[best] = -1
    return segments[order], scores.new_tensor(taken), labels[order]


def vote(segments: Tensor, others: Tensor, scores: Tensor, least: float) -> Tensor:
    """Return the means (n, 2) of the segments (m, 2) that overlap each of some of them.

    Those with an overlap of at least ``least`` count, by their scores (m,) times the overlap.
    """
    overlaps = torch.stack([segment_iou(segment, others) for segment in segments])
    weights = torch.where(overlaps >= least, overlaps * scores, 0)
    return weights @ others / weights.sum(dim=1, keepdim=True)


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
