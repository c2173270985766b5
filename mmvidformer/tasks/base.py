"""What a task is: all that the commands ask of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mmvidformer.config import type_name
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.errors import UserError
from mmvidformer.tasks.annotated import Annotated
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.exported import Exported

if TYPE_CHECKING:
    from mmengine.config import Config

Steps = Sequence[Mapping[str, Any]]  # transforms of a pipeline, as in a config


class Task(Answers, Exported, Annotated):
    """What a model predicts of videos. A subclass is a task, and its file knows all of it.

    This class has what concerns training and testing. What concerns predictions is in ``Answers``;
    what concerns exported models in ``Exported``, and what concerns annotations and lists of videos
    in ``Annotated``. Words such as step, span and part are told apart in ``tasks.prediction``.

    Configs of one class a video become those of another task by ``fragment``, which is what a child
    config would say. All methods may be called from several processes.

    Attributes:
        name: Name on the command line.
        balances: How classes can be balanced: by weights of the loss, or by sampling of the videos.
        loss: Type of the loss that takes weights of classes.
        probes: Methods of ``finetune`` that fit classifiers on features that are computed once.
        needs_places: Whether the head reads tokens at several places of a frame.
        head: Type of the head. None: that of the config, which is left as it is.
        heads_by_classifier: Heads that have the same weights as a classifier of one class, by the
            type of that; of others, it is ``head``. None: no head has.
        metric: Type of the metric.
        best_metric: Result by which the best checkpoint is kept, the greatest.
        unaware: Arguments of the preprocessor that are left out, as they know no such annotations.
    """

    name: str
    balances: tuple[str, ...] = ()
    loss = "CrossEntropyLoss"
    probes: tuple[str, ...] = ()
    needs_places = False
    head: str | None = None
    heads_by_classifier: Mapping[str, str] | None = None
    metric: str | None = None
    best_metric: str | None = None
    unaware: tuple[str, ...] = ("blending",)

    @staticmethod
    def worst(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sample of a video that could not be read with the worst answer.

        Its predictions are those of another video, and tell only their form.
        """
        raise NotImplementedError

    def check_classes(self, names: Sequence[str]) -> None:
        """Raise a ``UserError`` if there are too few classes to learn."""
        if len(names) < self.least_classes:
            raise UserError(f"at least {self.least_classes} classes are needed, got {[*names]}")

    def chance(self, lists: VideoLists, split: str) -> float | None:
        """Return the best result (``best_metric``) on a list without looking at its videos.

        None if it is not known.
        """
        return None

    def write_files(self, lists: VideoLists) -> None:
        """Write what the metric reads, beside the lists."""

    def fragment(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Return what a config of one class a video gets for this task, to be merged into it.

        Args:
            cfg: The config, whose dataloaders read ``lists``; it is not changed.
            lists: The lists.

        Raises:
            UserError: If the config has nothing that the task needs.
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

    def fits_head(self, head: Any) -> bool:
        """Whether a head, or its config, answers this task."""
        if self.head is None:
            return False
        classes = () if isinstance(head, Mapping) else type(head).__mro__
        types = [head_class.__name__ for head_class in classes] or [type_name(head)]
        return self.head.rpartition(".")[2] in types


def nothing_found(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample in which no segment or box is found."""
    instances = {name: values[:0] for name, values in sample["pred_instances"].items()}
    return {**sample, "pred_instances": instances}


def sampler_of(steps: Steps) -> Mapping[str, Any] | None:
    """Return the transform of a pipeline that samples frames at regular intervals, if any."""
    return next((step for step in steps if step.get("frame_interval")), None)


def rates_of(sampler: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a sampler that say how far apart its frames are."""
    names = ("frame_interval", "target_fps")
    return {name: sampler[name] for name in names if name in (sampler or {})}
