"""What a task is: all that the commands ask of one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmvidformer.config import type_name
from mmvidformer.data.list_folders import CLASSES, ListFacts, SplitList, VideoLists
from mmvidformer.data.lists import DEFAULT_DELIMITER
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import Table, read_table
from mmvidformer.data.text import read_text
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.files import write_file
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.exported import Exported
from mmvidformer.tasks.reading import Annotations
from mmvidformer.video.errors import with_suffix

if TYPE_CHECKING:
    from mmengine.config import Config

Steps = Sequence[Mapping[str, Any]]  # transforms of a pipeline, as in a config


class Task(Answers, Exported):
    """What a model predicts of videos. A subclass is a task, and its file knows all of it.

    This class has what concerns training and testing. What concerns predictions is in ``Answers``;
    what concerns exported models in ``Exported``. Words such as step, span and part are told apart
    in ``tasks.prediction``.

    Annotations go from ``read`` by ``write_lists`` to lists, which ``read_lists`` reads. Configs of
    one class a video become those of another task by ``fragment``, which is what a child config
    would say. All methods may be called from several processes.

    Attributes:
        name: Name on the command line.
        field_names: What papers call the task, as further names on the command line.
        suffix: Suffix of the lists of the splits.
        nouns: What it takes of exports: boxes, moments, segments, labels, and '' for videos alone.
        has_classes_file: Whether ``classes.txt`` may lie beside annotations, which number its
            lines.
        has_seconds: Whether annotations state seconds of a video.
        least_classes: Least number of classes, or of values.
        has_classes: Whether the names in the lists are classes, in ``classes.txt``, or values.
        size_unit: What ``class_sizes`` counts.
        sample_unit: What ``count_samples`` counts.
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
    field_names: tuple[str, ...] = ()
    suffix = "csv"
    nouns: tuple[str, ...] = ()
    has_classes_file = False
    has_seconds = False
    least_classes = 1
    has_classes = True
    size_unit = sample_unit = "videos"
    balances: tuple[str, ...] = ()
    loss = "CrossEntropyLoss"
    probes: tuple[str, ...] = ()
    needs_places = False
    head: str | None = None
    heads_by_classifier: Mapping[str, str] | None = None
    metric: str | None = None
    best_metric: str | None = None
    unaware: tuple[str, ...] = ("blending",)

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whether a csv file with these columns annotates this task."""
        return False

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read annotations, or the list of a split. What is wrong is in ``faults``.

        Args:
            table: The rows of a file.
            classes: Names of the classes; empty if they are not known yet.

        Raises:
            UserError: If the table has other columns.
        """
        raise UserError(f"the task {self.name} reads no such file as {table.file}")

    def video_paths(self, annotations: Annotations, folder: Path) -> dict[str, Path]:
        """Return where the annotated videos should be, which ``folder`` contains."""
        return {video: Path(with_suffix(str(folder / video))) for video in annotations.videos}

    def last_second(self, annotation: Any) -> float:
        """Return the second of a video that an annotation needs, if the task has seconds."""
        raise NotImplementedError

    def write_lists(
        self, annotations: Annotations, splits: Mapping[str, str], root: Path, paths: Mapping
    ) -> None:
        """Write the list of each split, and the names of the classes.

        Args:
            annotations: What ``read`` read.
            splits: Split of each video.
            root: Folder to write to.
            paths: Path of each video, relative to the folder of the lists if it is below.
        """
        columns = self.list_columns(annotations)
        for split, rows in annotations.rows_by_split(splits).items():
            lines = [columns]
            for row in rows:
                path = paths[row["video"]].as_posix()
                lines.append([path, *(row[name] for name in columns[1:])])
            write_csv(self.list_file(root, split), lines)
        classes = self.classes_in(annotations)
        if classes is not None:
            write_lines(root / CLASSES, classes)

    def classes_of(self, annotations: Annotations) -> dict[str, list[Any]]:
        """Return the classes of each video, of which splits and folds get equal shares."""
        classes: dict[str, list[Any]] = {}
        for video, of_video in annotations.videos.items():
            names = [
                said if isinstance(said, str) else getattr(said, "label", None) for said in of_video
            ]
            classes[video] = [*dict.fromkeys(name for name in names if name is not None)]
        return classes

    def list_columns(self, annotations: Annotations) -> Sequence[str]:
        """Return the columns of the lists, of which the first is the video."""
        raise NotImplementedError

    def classes_in(self, annotations: Annotations) -> Sequence[str] | None:
        """Return the names of the classes that annotations have; None if they are no classes."""
        raise NotImplementedError

    def read_lists(self, folder: str | Path) -> VideoLists:
        """Read the lists that ``write_lists`` writes.

        Raises:
            FileNotFoundError: If a file is missing.
            UserError: If a line is wrong; names file and line.
        """
        root = Path(folder).resolve()
        if not root.is_dir():
            raise MissingFile(f"folder {folder} does not exist")
        for file in [self.list_file(root, "train"), *[root / CLASSES] * self.has_classes]:
            if not file.is_file():
                raise MissingFile(f"{file} does not exist; mmvidformer data list writes it")
        names = tuple(read_text(root / CLASSES).splitlines()) if self.has_classes else ()
        counts = dict.fromkeys(SPLITS, 0)
        facts = dict.fromkeys(SPLITS, ListFacts((0,) * len(self.learned_classes(names))))
        delimiters = set()
        for split in SPLITS:
            file = self.list_file(root, split)
            if not file.is_file():
                continue
            split_list = self.read_list(file, names)
            counts[split], facts[split], values, delimiter = split_list
            if not self.has_classes:
                names = names or values
                if counts[split] and values != names:
                    raise UserError(f"{file} must have the columns of train.csv, got {values}")
            delimiters |= {delimiter} if counts[split] else set()
        # If they differ, each dataset finds its own.
        delimiter = delimiters.pop() if len(delimiters) == 1 else DEFAULT_DELIMITER
        return VideoLists(root, self.learned_classes(names), counts, delimiter, facts)

    def read_list(self, file: Path, classes: tuple[str, ...]) -> SplitList:
        """Read the list of a split; raises as ``read_lists``.

        Args:
            file: The list.
            classes: The names in ``classes.txt``.
        """
        annotations = self.read(read_table(file), classes).check()
        facts = self.list_facts(annotations, self.learned_classes(classes))
        return SplitList(self.count_samples(annotations), facts, annotations.names)

    def list_file(self, root: Path, split: str) -> Path:
        """Return the list of a split, in a folder of lists."""
        return root / f"{split}.{self.suffix}"

    def say_counts(self, lists: VideoLists) -> str:
        """Return what lists have, such as ``'3 classes; videos: 8 train, 7 val, 0 test'``."""
        counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
        unit = "classes" if self.has_classes else "values"
        return f"{len(lists.classes)} {unit}; videos: {counts}"

    def learned_classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the classes that a model learns, of those in ``classes.txt``."""
        return names

    def list_facts(self, annotations: Annotations, classes: Sequence[str]) -> ListFacts:
        """Return what training asks of a list."""
        if not self.has_seconds:
            return ListFacts()
        videos = annotations.videos.values()
        ends = tuple(max(map(self.last_second, items), default=0.0) for items in videos)
        return ListFacts(ends=ends)

    def count_samples(self, annotations: Annotations) -> int:
        """Return the number of samples of a list."""
        return len(annotations.videos)

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

    def class_sizes(self, lists: VideoLists, split: str = "train") -> np.ndarray:
        """Return the size of each class in the list of a split (classes,)."""
        sizes = lists.facts[split].sizes
        if not sizes:
            raise UserError(f"the classes of the task {self.name} have no sizes")
        return np.array(sizes)

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


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write lines of text, whole or not at all; its folder is created."""
    write_file(file, "".join(f"{line}\n" for line in lines).encode())


def write_csv(file: Path, rows: Iterable[Sequence]) -> None:
    """Write rows of a csv file, whole or not at all; its folder is created."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    write_file(file, text.getvalue().encode())
