"""Classification: one class a video."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmvidformer.data.list_folders import (
    CLASSES,
    ListFacts,
    SplitList,
    VideoLists,
    check_names,
    choose_delimiter,
)
from mmvidformer.data.lists import find_delimiter, read_list
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import Row, Table
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError
from mmvidformer.tasks.annotated import write_lines
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.names import PROBES
from mmvidformer.tasks.reading import Annotations, unknown_class


class Classification(Task):
    """One class a video: configs stay as they are."""

    name, suffix, least_classes = "classes", "txt", 2
    nouns = ("label",)
    balances = ("weights", "sampling")
    probes = PROBES
    heads_by_classifier: Mapping[str, str] | None = {}

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read a table with the columns ``video`` and ``label``.

        A video has one label, and with ``has_one_class`` no other one in another row. Else it has a
        row for each label, or names that are separated by semicolons.
        """
        annotations, known = Annotations(table), dict.fromkeys(classes)

        def read_row(row: Row, place: str) -> list[str]:
            names = [row["label"] or ""]
            if not self.has_one_class:
                names = names[0].split(";")
            names = [name.strip() for name in names if name.strip()]
            try:
                check_names(names)
            except ValueError as error:
                raise UserError(f"{place}: {error}") from error
            for name in names:
                if known and name not in known:
                    raise UserError(unknown_class(name, known, place))
            if self.has_one_class:
                self._check_label(annotations, row["video"], names, place)
            return names

        annotations.add_rows(table.read("video", "label"), read_row)
        return annotations

    def _check_label(
        self, annotations: Annotations, video: str, names: Sequence[str], place: str
    ) -> None:
        """Raise a ``UserError`` if a row has no label, or another one than an earlier row."""
        if not names:
            raise UserError(f"{place}: label is empty")
        for earlier in annotations.videos[video]:
            if earlier != names[0]:
                first = f"{annotations.places[video]} says {earlier!r}"
                again = f"{video} is listed again and has the label {names[0]!r}"
                raise UserError(f"{place}: {again}, but {first}")

    def write_lists(
        self, annotations: Annotations, splits: Mapping[str, str], root: Path, paths: Mapping
    ) -> None:
        """Write lists for MMAction2's ``VideoDataset``: a path and the numbers of its classes."""
        labels = {video: set(names) for video, names in annotations.videos.items()}
        classes = sorted(set().union(*labels.values()))
        numbers = {name: number for number, name in enumerate(classes)}
        texts = {video: path.as_posix() for video, path in paths.items()}
        delimiter = choose_delimiter([*texts.values()])
        for split in SPLITS:
            lines = []
            for video, text in texts.items():
                if splits[video] == split:
                    of_video = sorted(numbers[name] for name in labels[video])
                    lines.append(delimiter.join([text, *map(str, of_video)]))
            write_lines(root / f"{split}.txt", lines)
        write_lines(root / CLASSES, classes)

    def read_list(self, file: Path, classes: tuple[str, ...]) -> SplitList:
        """Read a list of MMAction2: a path and the numbers of its classes in each line."""
        lines = read_list(file, multi_class=not self.has_one_class)
        sizes = Counter(label for line in lines for label in line.labels)
        for number, line in enumerate(lines, start=1):
            if any(not 0 <= label < len(classes) for label in line.labels):
                allowed = f"0 to {len(classes) - 1}, as {CLASSES} has {len(classes)} lines"
                what = f"label must be in {allowed}, got {line.text.strip()[:100]!r}"
                raise UserError(f"{file}, line {number}: {what}")
        facts = ListFacts(tuple(sizes[number] for number in range(len(classes))))
        return SplitList(len(lines), facts, delimiter=find_delimiter(read_text(file)))

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
