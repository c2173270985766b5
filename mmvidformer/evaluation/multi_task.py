"""Accuracies of two tasks and of their pairs: EPIC-Kitchens' noun, verb and action."""

import math
from collections.abc import Mapping, Sequence

import torch
from mmengine.evaluator import BaseMetric
from torch import Tensor

from mmvidformer.registry import METRICS


def rank_of(scores: Tensor, label: int) -> float:
    """How many classes come before the labelled one: those that score higher, and earlier equals.

    Equal scores are broken by index, as ``argmax`` does, so that an untrained zero head is at
    chance. Scores with a NaN rank infinitely low, so that a diverged model is never right.
    """
    if scores.isnan().any():
        return math.inf
    own = scores[label]
    return int((scores > own).sum() + (scores[:label] == own).sum())


@METRICS.register_module()
class MultiTaskAccuracy(BaseMetric):
    """Top-k and mean class accuracy of each task, and top-k accuracy of the action.

    The action is a pair of classes, its score the product of the two softmaxes (EPIC-Kitchens-100
    as ViViT's official code evaluates it): top-1 is right when both are. Needs a dictionary of
    scores for each sample (``MultiTaskHead``) and labels in the order of the tasks.

    Args:
        tasks: Names of the tasks in the order of the labels.
        topk: The k's.
        probabilities: The scores are probabilities already (a head with
            ``average_clips='prob'``), not logits.
        collect_device: Where results of several processes meet, ``'cpu'`` or ``'gpu'``.
        prefix: Put before the names of the results.

    Raises:
        ValueError: If a sample's scores are not one vector for each task.
    """

    def __init__(
        self,
        tasks: Sequence[str] = ("noun", "verb"),
        topk: Sequence[int] = (1, 5),
        probabilities: bool = False,
        collect_device: str = "cpu",
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.tasks = tuple(tasks)
        self.topk = tuple(topk)
        self.probabilities = probabilities

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Keep the rank of the right class of each task and of the action, for each sample."""
        for sample in data_samples:
            scores, labels = sample["pred_score"], sample["gt_label"].tolist()
            if set(scores) != set(self.tasks) or any(s.dim() != 1 for s in scores.values()):
                shapes = {name: tuple(s.shape) for name, s in scores.items()}
                raise ValueError(
                    f"expected one score vector for each of {self.tasks}, got {shapes}; a head "
                    "with average_clips=None keeps the views and cannot be evaluated"
                )
            vectors = [scores[name].float().cpu() for name in self.tasks]
            pairs = list(zip(vectors, labels, strict=True))
            result = {
                name: (label, rank_of(vector, label))
                for name, (vector, label) in zip(self.tasks, pairs, strict=True)
            }
            if len(self.tasks) == 2:
                # Double, as products of confident softmaxes underflow to ties in single precision.
                first, second = (
                    v.double() if self.probabilities else v.double().softmax(0) for v in vectors
                )
                pair = labels[0] * len(second) + labels[1]
                result["action"] = (None, rank_of(torch.outer(first, second).flatten(), pair))
            self.results.append(result)

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Shares over all samples, such as ``action/top1`` or ``verb/mean_class``."""
        metrics = {}
        for name in results[0]:
            ranks = [result[name][1] for result in results]
            for k in self.topk:
                metrics[f"{name}/top{k}"] = sum(rank < k for rank in ranks) / len(ranks)
            if name in self.tasks:
                hits: dict[int, list[bool]] = {}
                for label, rank in (result[name] for result in results):
                    hits.setdefault(label, []).append(rank == 0)
                shares = [sum(hit) / len(hit) for hit in hits.values()]
                metrics[f"{name}/mean_class"] = sum(shares) / len(shares)
        return metrics
