"""Balanced classes: by weights of the loss, or by sampling."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config

from mmvidformer.config import type_name
from mmvidformer.config.fragments import Change, replace
from mmvidformer.data.labels import label_table
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.lists import read_list
from mmvidformer.errors import UserError
from mmvidformer.finetune.coverage import CoverSampler, samples_of
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATA_SAMPLERS
from mmvidformer.tasks.table import find_task


def balance_classes(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Balance the classes of training by weights or sampling, if the recipe says so.

    Raises:
        UserError: If the task cannot be balanced so, or the training list states no class.
    """
    how, task = recipe.balance, find_task(recipe.task)
    if how is None:
        return {}, []
    if how not in task.balances:
        known = ", ".join(task.balances) or "not available"
        raise UserError(f"balance of the task {task.name} is {known}, got {how!r}")
    covering = cfg.train_dataloader.get("sampler") or {}
    sizes, unit = task.class_sizes(lists), task.size_unit
    if "durations" in covering:
        sizes, unit = _sizes_in_samples(task.list_file(lists.root, "train"), lists, covering)
    if not sizes.any():
        file = task.list_file(lists.root, "train")
        raise UserError(f"balance={how} needs classes, but {file} has none")
    smallest, largest = sizes[sizes > 0].min(), sizes.max()
    note = f"balanced by {how}: classes have {smallest:g} to {largest:g} {unit}"
    if how == "sampling":
        names = ("draws", "seconds", "durations")
        kept = {name: value for name, value in covering.items() if name in names}
        sampler = {"type": "mmvidformer.BalancedSampler", **kept}
        return {"train_dataloader": replace(cfg.train_dataloader, "sampler", sampler)}, [note]
    head = cfg.model.cls_head
    loss = head.get("loss_cls") or dict(type=task.loss)
    if type_name(loss) != task.loss:
        raise UserError(f"weights need the loss {task.loss}, got {type_name(loss)}")
    weighted = {**loss, "class_weight": class_weights(sizes)}
    return {"model": {"cls_head": replace(head, "loss_cls", weighted)}}, [note]


def _sizes_in_samples(
    file: Path, lists: VideoLists, covering: Mapping[str, Any]
) -> tuple[np.ndarray, str]:
    """Return how many samples of an epoch show each class, where long videos have many."""
    sizes = np.zeros(len(lists.classes))
    counts = samples_of(lists.facts["train"].durations, covering["seconds"], long_only=True)
    for line, count in zip(read_list(file), counts.tolist(), strict=True):
        sizes[[*line.labels]] += count
    return sizes, "samples"


def class_weights(counts: Sequence[float] | np.ndarray) -> list[float]:
    """Return weights in inverse proportion to the sizes of classes, with mean 1 over the samples.

    Classes without samples get weight 1.
    """
    sizes = np.asarray(counts, dtype=float)
    mean = sizes.sum() / (sizes > 0).sum()
    return (mean / np.where(sizes > 0, sizes, mean)).round(6).tolist()


@DATA_SAMPLERS.register_module()
class BalancedSampler(CoverSampler):
    """Draw videos with replacement so that all classes are about equally frequent.

    A video of several classes is drawn as often as its rarest class needs, one of none as often as
    the average video. Arguments are those of ``CoverSampler``.
    """

    def order(self, generator: torch.Generator) -> torch.Tensor:
        """Draw the samples of an epoch, as many as without balance."""
        # torch.multinomial takes at most 2^24 samples.
        ends = self.weights[self.samples].cumsum(0)
        count = len(self.samples)
        draws = torch.rand(count, dtype=torch.double, generator=generator) * ends[-1]
        places = torch.searchsorted(ends, draws, right=True).clamp_(max=count - 1)
        return self.samples[places]

    @cached_property
    def weights(self) -> torch.Tensor:
        """How often a sample of each video is drawn, relative to the others (videos,)."""
        labels, videos = label_table(self.dataset), len(self.dataset)
        weights, times = np.zeros(videos), np.bincount(self.samples, minlength=videos)
        sizes = np.bincount(labels.classes, times[labels.samples])
        of_classes = np.array(class_weights(sizes))
        np.maximum.at(weights, labels.samples, of_classes[labels.classes])
        return torch.from_numpy(np.where(weights > 0, weights, 1.0))
