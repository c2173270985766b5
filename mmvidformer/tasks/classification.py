"""Classification: one class a video."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import VideoLists, read_lists
from mmvidformer.tasks.base import Task


class Classification(Task):
    """One class a video: configs stay as they are."""

    name, suffix, least_classes = "classes", "txt", 2
    balances = ("weights", "sampling")
    has_probes = True
    heads_by_classifier: Mapping[str, str] | None = {}

    def read_lists(self, folder: str | Path) -> VideoLists:
        """Read the lists that ``mmvidformer data list FOLDER`` writes."""
        return read_lists(folder)

    @staticmethod
    def worst(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sample with the lowest score for the true class, or for all of several.

        Scores of several tasks with a label each become NaN.
        """
        scores, label = sample["pred_score"], sample.get("gt_label")
        if not isinstance(scores, Mapping):
            return {**sample, "pred_score": _lowest(scores, label)}
        if label is not None and len(label) > 1:
            worst = {task: torch.full_like(x, torch.nan) for task, x in scores.items()}
        else:
            worst = {task: _lowest(x, label) for task, x in scores.items()}
        return {**sample, "pred_score": worst}

    def class_sizes(self, lists: VideoLists, split: str = "train") -> np.ndarray:
        """Return the number of videos of each class."""
        sizes = np.zeros(len(lists.classes), dtype=int)
        for line, _ in read_list(lists.root / f"{split}.txt", lists.delimiter):
            for number in line.strip().split(lists.delimiter)[1:]:
                sizes[int(number)] += 1
        return sizes

    def chance(self, lists: VideoLists, split: str) -> float:
        """Return what the class is right in that most training videos have, or any other one."""
        return share_of_commonest(self.class_sizes(lists), self.class_sizes(lists, split))


def share_of_commonest(train_sizes: np.ndarray, sizes: np.ndarray) -> float:
    """Return the share of the class that is the largest in training; at least that of a draw.

    Args:
        train_sizes: Size of each class in training (classes,).
        sizes: Size of each class where the share is asked for.
    """
    commonest = sizes[train_sizes.argmax()] / max(sizes.sum(), 1e-9)
    return float(max(commonest, 1 / len(sizes)))


def _lowest(scores: Tensor, label: Tensor | None) -> Tensor:
    """Return scores (classes,), or (views, classes), that are lowest for the true classes."""
    if label is None or len(label) > 1 or label.is_floating_point():  # several classes
        return all_lowest(scores)
    worst = torch.zeros_like(scores)
    worst[..., label[label < scores.shape[-1]]] = torch.finfo(scores.dtype).min
    return worst


def all_lowest(scores: Tensor) -> Tensor:
    """Return the lowest scores, which are finite: MMAction2's mAP knows ties of numbers only."""
    return torch.full_like(scores, torch.finfo(scores.dtype).min)
