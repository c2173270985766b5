"""Choosing the tokens of a clip that are computed: those where something happens.

``backbone(clip, kept=choose_places(measure_differences(clip, backbone.embed), 0.25))`` computes a
quarter of them. Scores may be anything, such as motion vectors (``video.measure_motion``).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.stem import Stem
from mmvidformer.layers.tokens import Places


def choose_places(scores: Tensor, share: float) -> Places:
    """Choose the places of the largest scores, as many in each clip (Tang et al. 2026).

    Args:
        scores: Scores (B, T, H, W). The first frame is chosen before all else, as what does not
            move is seen there; then come the largest, of equal ones the first.
        share: Share of the places, above 0 and at most 1, rounded, at least one.

    Returns:
        Places of the clips, in order, for ``kept`` of a ``VideoTransformer``.

    Raises:
        UserError: If the share is none.
    """
    if not 0 < share <= 1:
        raise UserError(f"share must be above 0 and at most 1, got {share}")
    first = torch.full_like(scores[:, :1], torch.inf)
    ranked = torch.cat([first, scores[:, 1:]], dim=1).flatten(1)
    count = max(round(share * math.prod(scores.shape[1:])), 1)
    numbers = ranked.argsort(dim=1, descending=True, stable=True)[:, :count]
    return Places(numbers.sort(dim=1).values, tuple(scores.shape[1:]))


def measure_differences(clip: Tensor, stem: Stem) -> Tensor:
    """Return by how much the pixels of tubelets differ from those before, in the mean.

    Args:
        clip: Pixels (B, C, T', H', W').
        stem: That of the model, whose tubelets do not overlap.

    Returns:
        Mean absolute differences (B, T, H, W), 0 in the first frame.
    """
    boxes = stem.boxes(clip)
    return F.pad(boxes.diff(dim=1).abs().mean(dim=-1), (0, 0, 0, 0, 1, 0))
