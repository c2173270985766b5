"""Annotations: labels that the head does not have, duplicates, and files that are missing."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from mmengine.config import Config

from mmvidformer.config import config_scope, type_name
from mmvidformer.datasets.decoding.faults import PATH_KEYS
from mmvidformer.registry import DATASETS

# Datasets of MMAction2's lists, which have a line per sample, and the columns of a line.
LISTS = {
    "VideoDataset": ("PATH", "LABEL"),
    "RepeatAugDataset": ("PATH", "LABEL"),
    "TiledVideoDataset": ("PATH", "LABEL"),
    "ClassSubsetDataset": ("PATH", "LABEL"),
    "RawframeDataset": ("FOLDER", "FRAMES", "LABEL"),
}
UNLABELED = -1  # MMAction2's label of a line that has none


class Annotations:
    """The samples of a dataset, read as a run reads them, but without opening a video.

    Args:
        cfg: Complete config.
        dataset: Config of a dataset without wrappers.

    Raises:
        ValueError: If a line of a list is malformed (the message has file and line), there are no
            samples, or the dataset refuses its annotations.
        Exception: What else the dataset raises.
    """

    def __init__(self, cfg: Config, dataset: Mapping) -> None:
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
        if self.kind == "TiledVideoDataset":  # would open its videos
            options.update(type="mmaction.VideoDataset")
            options.pop("clips_per_item", None)
        built = DATASETS.build({**options, "lazy_init": True})
        try:
            self.infos = built.load_data_list()
        except (ValueError, AssertionError, IndexError) as error:
            raise ValueError(self._malformed_line() or str(error)) from error
        return len(self.infos)

    def _malformed_line(self) -> str | None:
        columns = LISTS[self.kind]
        if self.dataset.get("with_offset"):
            columns = ("FOLDER", "OFFSET", *columns[1:])
        delimiter = self.dataset.get("delimiter", " ")
        with open(self.file, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(map(str.strip, lines), start=1):
                numbers = line.split(None if "FRAMES" in columns else delimiter)[1:]
                size = min(
                    1 + len(numbers), len(columns) if self.dataset.get("multi_class") else 99
                )
                valid = all(re.fullmatch(r"[+-]?\d+", text) for text in numbers)
                if not valid or size != len(columns) or "\ufffd" in line:
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

    def wrong_labels(self, classes: Sequence[int], optional: bool = False) -> Iterator[str]:
        """Labels that the head does not have.

        Args:
            classes: Number of classes of each task of the head, in the order of the labels.
            optional: Whether samples may have no label.
        """
        labels = list(map(self._labels, self.infos))
        single = len(classes) == 1
        for item, own in enumerate(labels):
            if own and len(own) != len(classes) and not single:
                yield (
                    f"{self.at(item)}: a sample must have a label for each of the {len(classes)} "
                    f"tasks of model.cls_head, got {len(own)}"
                )
                return
        for task, count in enumerate(classes):
            pairs = [
                (item, label)
                for item, own in enumerate(labels)
                for label in (own if single else own[task : task + 1])
                if label != UNLABELED or not optional
            ]
            wrong = [(item, label) for item, label in pairs if not 0 <= label < count]
            if not wrong:
                continue
            item, label = wrong[0]
            values = {label for _, label in pairs}
            advice = "labels count from 0"
            if label == UNLABELED:
                advice = "which MMAction2 takes for a line without label"
            elif (min(values), max(values)) == (1, count):
                advice = "the labels seem to count from 1"
            elif max(values) >= count:
                advice = f"all labels need {max(values) + 1} classes"
            name = "model.cls_head.num_classes" if single else f"task {task} of model.cls_head"
            yield (
                f"{self.at(item)}: label must be in 0 to {count - 1} ({name} is {count}), got "
                f"{label}; {len(wrong)} of {len(pairs)} labels are wrong, {advice}"
            )

    @staticmethod
    def _labels(info: Mapping) -> tuple[int, ...]:
        label = info.get("label", ())
        if isinstance(label, int):
            return (label,)
        values = np.ravel(label)
        return tuple(values.tolist()) if values.dtype.kind in "iu" else ()

    def duplicates(self) -> Iterator[str]:
        """Files of a list, or names of segments, that occur again, with equal or other labels."""
        first: dict[object, int] = {}
        again: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for item, (path, info) in enumerate(zip(self.paths, self.infos, strict=True)):
            own = (path, info.get("offset")) if self.kind in LISTS else info.get("narration_id")
            before = first.setdefault(own, item)
            if before != item and own is not None:
                equal = self._labels(info) == self._labels(self.infos[before])
                again[equal].append((item, before))
        for equal, pairs in again.items():
            if pairs:
                item, before = pairs[0]
                name = self.infos[item].get("narration_id") or self.paths[item]
                yield (
                    f"{self.at(item)}: {name} is also in {self.at(before)}, with "
                    f"{'the same' if equal else 'another'} label; {len(pairs)} such entries"
                )

    def outside(self) -> Iterator[str]:
        """Files that are not below the prefix: absolute paths, and paths with ``..``."""
        if not self.prefix:
            return
        found = [
            item
            for item, path in enumerate(self.paths)
            if (".." in path or not path.startswith(self.prefix))
            and os.path.relpath(path, self.prefix).startswith("..")
        ]
        if found:
            yield (
                f"{self.at(found[0])}: {self.paths[found[0]]} is outside of data_prefix "
                f"{self.prefix}; {len(found)} of {self.size} entries"
            )

    def missing(self, share: float) -> Iterator[str]:
        """Files that do not exist, found by listing their folders, which is fast over networks.

        Args:
            share: Share of the samples that may be missing.
        """
        folders: dict[str, set[str]] = {}

        def exists(path: str) -> bool:
            folder, name = os.path.split(path)
            if folder not in folders:
                try:
                    folders[folder] = set(os.listdir(folder or "."))
                except OSError:
                    folders[folder] = set()
            # MMAction2 looks for a video without suffix as .mp4.
            return name in folders[folder] or (
                not os.path.splitext(name)[1] and f"{name}.mp4" in folders[folder]
            )

        missing = [item for item, path in enumerate(self.paths) if path and not exists(path)]
        missing += [i for i, info in enumerate(self.infos) if info.get("total_frames", 1) < 1]
        if len(missing) <= share * self.size:
            return
        path = self.paths[missing[0]]
        name = os.path.relpath(path, self.prefix or ".")
        near = [name, os.path.join(os.path.dirname(self.prefix), name)]
        near += [os.path.join(self.prefix, os.path.basename(path))]
        near += glob.glob(glob.escape(os.path.splitext(path)[0]) + ".*")
        hint = next((f", but {other} exists" for other in near if os.path.exists(other)), "")
        yield (
            f"{self.at(missing[0])}: {len(missing)} of {self.size} files are missing or have no "
            f"frames, the first is {path}{hint}; tools/data/check_videos.py lists bad files"
        )
