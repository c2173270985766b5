"""Annotations: labels that the head does not have, duplicates, and files that are missing."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from mmengine.config import Config

from mmvidformer.config import config_scope, type_name
from mmvidformer.datasets.decoding.errors import PATH_KEYS
from mmvidformer.datasets.epic_kitchens import AnticipationDataset
from mmvidformer.registry import DATASETS

# Datasets of MMAction2's lists, which have a line per sample.
LISTS = ("VideoDataset", "RawframeDataset", "RepeatAugDataset", "ClassSubsetDataset")
UNLABELED = -1  # MMAction2's label of a line that has none


class Annotations:
    """The samples of a dataset without wrappers, read as a run reads them, but without its videos.

    Raises:
        ValueError: If a line of a list is malformed (the message has file and line), there are no
            samples, or the dataset refuses its annotations.
        Exception: What else the dataset raises.
    """

    def __init__(self, cfg: Config, dataset: Mapping) -> None:
        self.head = (cfg.get("model") or {}).get("cls_head") or {}
        self.dataset, self.kind = dataset, type_name(dataset)
        self.file = dataset.get("ann_file") or self.kind
        prefix = dataset.get("data_prefix") or {}
        if not isinstance(prefix, Mapping):
            raise ValueError(f"data_prefix must be a dict such as dict(video=DIR), got {prefix!r}")
        self.prefix = next(iter(prefix.values())) or "" if len(prefix) == 1 else ""
        self.infos: Sequence[Mapping] = ()
        with config_scope(cfg):
            self.size = self._read({**dataset})
        if not self.size:
            raise ValueError(f"{self.file} has no samples")
        self.labels = [_labels(info.get("label", ())) for info in self.infos]
        self.paths = [
            next((str(info[key]) for key in PATH_KEYS if info.get(key)), "") for info in self.infos
        ]
        if self.paths and "\ufeff" in self.paths[0]:
            raise ValueError(f"{self.file} begins with a byte order mark; save it without one")

    def _read(self, options: dict) -> int:
        if self.kind not in LISTS or options.get("indices"):
            built = DATASETS.build(options)
            if options.get("ann_file"):  # otherwise it has listed the files that exist
                self.infos = [built.get_data_info(item) for item in range(len(built))]
            return len(built)
        built = DATASETS.build({**options, "lazy_init": True})
        try:
            self.infos = built.load_data_list()
        except (ValueError, AssertionError, IndexError) as error:
            raise ValueError(self._malformed_line() or str(error)) from error
        return len(self.infos)

    def _malformed_line(self) -> str | None:
        columns, delimiter = ["PATH", "LABEL"], self.dataset.get("delimiter", " ")
        if self.kind == "RawframeDataset":
            offset = ["OFFSET"] * self.dataset.get("with_offset", False)
            columns, delimiter = ["FOLDER", *offset, "FRAMES", "LABEL"], None
        with open(self.file, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(map(str.strip, lines), start=1):
                numbers = line.split(delimiter)[1:]
                valid = all(re.fullmatch(r"[+-]?\d+", text) for text in numbers)
                spare = len(numbers) + 1 - len(columns)
                valid &= spare == 0 or (spare > 0 and self.dataset.get("multi_class", False))
                if not valid or "\ufffd" in line:
                    return (
                        f"{self.file}, line {number}: must be UTF-8 text of {len(columns)} columns "
                        f"({' '.join(columns)}) with delimiter {delimiter!r}, got {line[:100]!r}"
                    )
        return None

    def at(self, item: int) -> str:
        """Place of a sample in its file."""
        is_line = self.kind in LISTS and self.kind != "ClassSubsetDataset"  # which skips lines
        place = f"{self.file}, {'line' if is_line else 'entry'} {item + 1}"
        return self.infos[item].get("where", place)

    def wrong_labels(self, optional: bool) -> Iterator[str]:
        """Labels that the head does not have; samples may have none if labels are optional."""
        tasks = self.head.get("tasks")
        classes = {"num_classes": self.head.get("num_classes")}
        if isinstance(tasks, Mapping):
            order = AnticipationDataset.tasks  # of its labels, whatever that of the head
            names = order if set(tasks) == set(order) else tasks
            classes = {f"tasks.{name}": tasks[name] for name in names}
        classes = {name: count for name, count in classes.items() if count is not None}
        single = len(classes) == 1
        if classes and not (single and self.dataset.get("multi_class", False)):
            for item, labels in enumerate(self.labels):
                if len(labels) not in (0, len(classes)):
                    yield (
                        f"{self.at(item)}: a sample must have one label per task of model.cls_head "
                        f"({len(classes)}), got {len(labels)}"
                    )
                    return
        for task, (name, count) in enumerate(classes.items()):
            pairs = [
                (item, label)
                for item, labels in enumerate(self.labels)
                for label in (labels if single else labels[task : task + 1])
                if label != UNLABELED or not optional
            ]
            wrong = [(item, label) for item, label in pairs if not 0 <= label < count]
            if wrong:
                item, label = wrong[0]
                values = [label for _, label in pairs]
                note = " (a line without label)" if label == UNLABELED else ""
                yield (
                    f"{self.at(item)}: label must be in 0 to {count - 1} "
                    f"(model.cls_head.{name} is {count}), got {label}{note}; "
                    f"{len(wrong)} of {len(values)} labels are wrong, they are "
                    f"{min(values)} to {max(values)}"
                )

    def duplicates(self) -> Iterator[str]:
        """Files of a list, or names of segments, that occur again with equal or other labels."""
        first: dict[object, int] = {}
        again: dict[str, list[tuple[int, int]]] = {"the same label": [], "another label": []}
        for item, info in enumerate(self.infos):
            place = (self.paths[item], info.get("offset"))
            name = place if self.kind in LISTS else info.get("narration_id", item)
            before = first.setdefault(name, item)
            if before != item:
                equal = self.labels[item] == self.labels[before]
                again["the same label" if equal else "another label"].append((item, before))
        for what, pairs in again.items():
            if pairs:
                item, before = pairs[0]
                name = self.infos[item].get("narration_id") or self.paths[item]
                yield (
                    f"{self.at(item)}: {name} is also in {self.at(before)}, with {what}; "
                    f"{len(pairs)} such entries"
                )

    def outside(self) -> Iterator[str]:
        """Files that are not below the prefix: absolute paths, and paths with ``..``."""
        found = [
            item
            for item, path in enumerate(self.paths if self.prefix else ())
            if (".." in path or not path.startswith(self.prefix))  # the quick part
            and os.path.relpath(path, self.prefix).startswith("..")
        ]
        if found:
            yield (
                f"{self.at(found[0])}: {self.paths[found[0]]} is outside of data_prefix "
                f"{self.prefix}; {len(found)} of {self.size} entries"
            )

    def missing(self, share: float) -> Iterator[str]:
        """More than a share of files that do not exist, found by listing their folders."""

        @cache
        def names(folder: str) -> set[str]:
            return {*os.listdir(folder or ".")} if os.path.isdir(folder or ".") else set()

        def exists(path: str) -> bool:
            folder, name = os.path.split(path)
            # MMAction2 looks for a video without suffix as .mp4.
            suffix = "" if os.path.splitext(name)[1] else ".mp4"
            return not names(folder).isdisjoint({name, name + suffix})

        steps = self.dataset.get("pipeline") or ()
        if any(step.get("io_backend", "disk") not in ("disk", "local") for step in steps):
            return
        missing = [item for item, path in enumerate(self.paths) if path and not exists(path)]
        missing += [item for item, x in enumerate(self.infos) if x.get("total_frames", 1) < 1]
        if len(missing) <= share * self.size:
            return
        path, prefix = Path(self.paths[missing[0]]), Path(self.prefix)
        name = os.path.relpath(path, prefix)
        near = [Path(name), prefix.parent / name, prefix / path.name]
        near += path.parent.glob(f"{glob.escape(path.stem)}.*")
        hint = next((f", but {other} exists" for other in near if other.exists()), "")
        yield (
            f"{self.at(missing[0])}: {len(missing)} of {self.size} files are missing or have no "
            f"frames, the first is {path}{hint}; mmvidformer data check lists bad files"
        )


def _labels(label: object) -> tuple[int, ...]:
    if isinstance(label, int):
        return (label,)
    values = np.ravel(label)
    return tuple(values.tolist()) if values.dtype.kind in "iu" else ()
