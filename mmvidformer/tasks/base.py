"""What a task is: all that the commands ask of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mmvidformer.datasets.own_videos import SPLITS, VideoLists

if TYPE_CHECKING:
    from mmengine.config import Config

Steps = Sequence[Mapping[str, Any]]  # transforms of a pipeline, as in a config


class Task:
    """What a model predicts of videos. A subclass is a task, and its file knows all of it.

    Configs of one class a video become those of another task by ``fragment``, which is what a
    child config would say. All methods may be called from several processes.

    Attributes:
        name: Name on the command line.
        suffix: Suffix of the lists of the splits.
        least_classes: Least number of classes, or of values.
        classes_word: What the names in the lists stand for.
        size_unit: What ``class_sizes`` counts.
        balances: How classes can be balanced: by weights of the loss, or by sampling of the videos.
        loss: Type of the loss that takes weights of classes.
        has_probes: Whether classifiers fit on features that are computed once.
        needs_places: Whether the head reads tokens at several places of a frame.
        head: Type of the head. None: that of the config, which is left as it is.
        metric: Type of the metric.
        best_metric: Result by which the best checkpoint is kept, the greatest.
        unaware: Arguments of the preprocessor that are left out, as they know no such annotations.
    """

    name: str
    suffix = "csv"
    least_classes = 1
    classes_word = "classes"
    size_unit = "videos"
    balances: tuple[str, ...] = ()
    loss = "CrossEntropyLoss"
    has_probes = False
    needs_places = False
    head: str | None = None
    metric: str | None = None
    best_metric: str | None = None
    unaware: tuple[str, ...] = ("blending",)

    def class_sizes(self, lists: VideoLists) -> np.ndarray:
        """Return the size of each class in the training list (classes,)."""
        raise NotImplementedError(f"the classes of the task {self.name} have no sizes")

    def write_files(self, lists: VideoLists) -> None:
        """Write what the metric reads, beside the lists."""

    def fragment(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Return what a config of one class a video gets for this task, to be merged into it.

        Args:
            cfg: The config, whose dataloaders read ``lists``; it is not changed.
            lists: The lists.

        Raises:
            ValueError: If the config has nothing that the task needs.
        """
        if self.head is None:
            return {}
        fragment: dict[str, Any] = {"model": self.model_config(cfg, lists)}
        for split in SPLITS:
            loader = cfg.get(f"{split}_dataloader")
            if not loader:
                continue
            pipeline = self.pipeline(loader.dataset.pipeline, split, cfg)
            dataset = {**self.dataset_config(lists), "pipeline": pipeline}
            fragment[f"{split}_dataloader"] = {"dataset": dataset, **self.loader_config(split)}
            if cfg.get(f"{split}_evaluator"):
                metric = self.metric_config(lists, loader.dataset.ann_file)
                fragment[f"{split}_evaluator"] = {"_delete_": True, **metric}
        if cfg.get("val_evaluator"):
            best = dict(save_best=self.best_metric, rule="greater")
            fragment["default_hooks"] = {"checkpoint": best}
        return fragment

    def model_config(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Return what changes in the model: the head, and the preprocessor without ``unaware``."""
        head = dict(
            type=self.head,
            num_classes=len(lists.classes),
            in_channels=cfg.model.cls_head.in_channels,
        )
        model: dict[str, Any] = {"cls_head": {"_delete_": True, **head}}
        preprocessor = cfg.model.get("data_preprocessor") or {}
        aware = {key: value for key, value in preprocessor.items() if key not in self.unaware}
        if len(aware) < len(preprocessor):
            model["data_preprocessor"] = {"_delete_": True, **aware}
        return model

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return what changes in the datasets, besides their pipelines."""
        return {}

    def loader_config(self, split: str) -> dict[str, Any]:
        """Return what changes in the dataloader of a split."""
        return {}

    def pipeline(self, steps: Steps, split: str, cfg: Config) -> list[Mapping[str, Any]]:
        """Return the pipeline of a split, made of that of the config."""
        return [*steps]

    def metric_config(self, lists: VideoLists, ann_file: str) -> dict[str, Any]:
        """Return the metric of a split, whose list is ``ann_file``."""
        return {"type": self.metric}

    def fits_head(self, head_type: str) -> bool:
        """Whether a head of a config, by its type without a scope, answers this task."""
        return self.head is not None and self.head.rpartition(".")[2] == head_type


def sampler_of(steps: Steps) -> Mapping[str, Any] | None:
    """Return the transform of a pipeline that samples frames at regular intervals, if any."""
    return next((step for step in steps if step.get("frame_interval")), None)


def rates_of(sampler: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a sampler that say how far apart its frames are."""
    names: Iterable[str] = ("frame_interval", "target_fps")
    return {name: sampler[name] for name in names if name in (sampler or {})}
