"""How the answers of a recognizer for a sample differ from those of the exact one."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mmvidformer.layers.samples import Instances
from mmvidformer.models.soft_nms import segment_iou
from mmvidformer.tasks.changes import Change, Scores, largest_difference
from mmvidformer.tasks.table import task_of_head

SURE = 0.3  # least score of a segment that is an answer, as in ``Recognizer.timeline``

Answer = Scores | Instances  # of a sample; ``Instances`` of ``SegmentsHead``: its segments


def answer_of(sample: Any) -> Answer:
    """Return copies of what a head wrote into a data sample: scores, or segments."""
    scores = sample.get("pred_score")
    if scores is None:
        instances = sample.get("pred_instances")
        if instances is not None and "segments" in instances:
            return Instances({name: copied(value) for name, value in instances.items()})
        scores = torch.zeros(0) if instances is None else instances.scores
    by_output = scores if isinstance(scores, Mapping) else {"": scores}
    return {name: copied(value) for name, value in by_output.items()}


def copied(values: Tensor) -> Tensor:
    """Return a copy without gradients."""
    return values.detach().clone()


def add_change(change: Change, expected: Answer, answer: Answer, has_classes: bool) -> None:
    """Compare the answer for a sample with the exact one.

    Segments of a class are the same if they overlap by more than half (IoU). A sure one of either
    model, which the other one does not find, is an answer that changed.
    """
    if not isinstance(expected, Instances):
        change.add(expected, answer, has_classes)
        return
    for segments, others in ((expected, answer), (answer, expected)):
        partners = partner_scores(segments, others)
        is_sure = segments.scores >= SURE
        is_lost = is_sure & ~(partners > 0)
        change.answers += int((is_sure if segments is expected else is_lost).sum())
        change.changed += int(is_lost.sum())
        if len(partners):
            difference = largest_difference(partners, segments.scores)
            change.difference = max(change.difference, difference)


def partner_scores(segments: Instances, others: Instances) -> Tensor:
    """Return the score (n,) of the same segment among others; 0: they lack it."""
    partners = torch.zeros_like(segments.scores)
    if not len(others.scores):
        return partners
    for number, label in enumerate(segments.labels):
        overlaps = segment_iou(segments.segments[number], others.segments)
        overlap, place = (overlaps * (others.labels == label)).max(dim=0)
        if overlap > 0.5:
            partners[number] = others.scores[place]
    return partners


def gives_classes(model: Any) -> bool:
    """Return whether the largest score of a recognizer is its answer: a class."""
    return task_of_head(model.cls_head).activation is not None
