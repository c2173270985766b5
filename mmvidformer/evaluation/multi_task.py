"""Accuracies of two tasks and of their pairs: EPIC-Kitchens' noun, verb and action."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from torch import Tensor

from mmvidformer.registry import METRICS


def rank_of(scores: Tensor, label: int) -> float:
    """Count the classes that are ranked before the labeled one.

    Ties are broken by index, as in ``argmax``, so that an untrained zero head is at chance. Scores
    with a NaN give infinity, so that a diverged model is never right.
    """
    if scores.isnan().any():
        return math.inf
    own = scores[label]
    return int((scores > own).sum() + (scores[:label] == own).sum())


def mean_topk_recall(
    ranks: np.ndarray, labels: np.ndarray, k: int, classes: Sequence[int] | None = None
) -> np.ndarray:
    """Compute the share of a class's samples that are right at top k, averaged over classes.

    Args:
        ranks: (N, ...), results of ``rank_of``.
        labels: (N,), the right classes.
        k: The k.
        classes: Classes to average over; those without samples are ignored. Default: all.

    Raises:
        ValueError: If none of the classes has a sample.
    """
    present = np.intersect1d(labels, labels if classes is None else classes)
    if not len(present):
        raise ValueError("no class to average over has a sample")
    return np.mean([(ranks[labels == c] < k).mean(axis=0) for c in present], axis=0)


def _distribution(scores: Tensor) -> Tensor:
    is_one = bool((scores >= 0).all()) and abs(float(scores.sum()) - 1) < 1e-3
    return scores if is_one else scores.softmax(0)


@METRICS.register_module()
class MultiTaskAccuracy(BaseMetric):
    """Top-k and mean class accuracy of each task, and top-k accuracy of the action.

    The action is a pair of classes, whose score is the product of the two softmaxes, as in ViViT's
    official evaluation of EPIC-Kitchens-100: top-1 is right if both are. Data samples need a
    dictionary of scores (``MultiTaskHead``) and labels in the order of the tasks. Scores that are
    probabilities (of a head with ``average_clips='prob'``) get no softmax.

    Results are named ``action/top1``, ``verb/mean_class`` etc.

    Args:
        tasks: Names of the tasks, in the order of the labels.
        topk: The k's.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.

    Raises:
        ValueError: If a sample's scores are not one vector for each task.
    """

    default_prefix = ""

    def __init__(
        self,
        tasks: Sequence[str] = ("noun", "verb"),
        topk: Sequence[int] = (1, 5),
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.tasks = tuple(tasks)
        self.topk = tuple(topk)

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store the labels, and the ranks of the right class of each task and of the action."""
        for sample in data_samples:
            scores, labels = sample["pred_score"], sample["gt_label"].tolist()
            if set(scores) != set(self.tasks) or any(s.dim() != 1 for s in scores.values()):
                shapes = {name: tuple(s.shape) for name, s in scores.items()}
                raise ValueError(
                    f"expected one score vector for each of {self.tasks}, got {shapes}; a head "
                    "with average_clips=None keeps the views and cannot be evaluated"
                )
            vectors = [scores[name].float().cpu() for name in self.tasks]
            ranks = [rank_of(*pair) for pair in zip(vectors, labels, strict=True)]
            if len(self.tasks) == 2:
                # Products of confident softmaxes underflow to ties in single precision.
                first, second = (_distribution(vector.double()) for vector in vectors)
                pair = labels[0] * len(second) + labels[1]
                ranks.append(rank_of(torch.outer(first, second).flatten(), pair))
            self.results.append((labels, ranks))

    def compute_metrics(self, results: list[tuple]) -> dict[str, float]:
        """Compute the shares over all samples."""
        labels, ranks = (np.array(column) for column in zip(*results, strict=True))
        metrics = {}
        for i, name in enumerate((*self.tasks, "action")[: ranks.shape[1]]):
            for k in self.topk:
                metrics[f"{name}/top{k}"] = float((ranks[:, i] < k).mean())
            if name in self.tasks:
                recall = mean_topk_recall(ranks[:, i], labels[:, i], k=1)
                metrics[f"{name}/mean_class"] = float(recall)
        return metrics
