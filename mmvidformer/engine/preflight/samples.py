"""Annotations: labels that the head does not have, duplicates, and files that are missing."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from mmaction.datasets import RawframeDataset, VideoDataset
from mmaction.models.recognizers import BaseRecognizer
from mmengine.dataset import BaseDataset
from torch import nn

from mmvidformer.datasets.decoding.errors import PATH_KEYS
from mmvidformer.datasets.epic_kitchens import SegmentDataset
from mmvidformer.datasets.single_class import ImageFolderDataset

Problems = Iterator[tuple[bool, str]]  # whether it is an error, and its description
LISTS = (VideoDataset, RawframeDataset)  # whose samples are the lines of a file
UNLABELED = -1  # MMAction2's label of a line that has none


def leaves(dataset: object, policy: Mapping) -> Iterator[tuple[object, Mapping]]:
    """Yield the datasets inside wrappers, each with the policy for bad videos that it has.

    Args:
        dataset: Dataset, which may be a wrapper such as ``RepeatDataset`` and ``ConcatDataset``.
        policy: ``bad_videos`` of the config; that of a ``mmvidformer.SafeDataset`` is its own.
    """
    own = getattr(dataset, "__dict__", {})  # not what a wrapper passes on
    policy = own if "on_bad_video" in own else policy
    inner = [*(own.get("datasets") or ()), own.get("dataset")]
    inner = [one for one in inner if hasattr(one, "__getitem__") and hasattr(one, "__dict__")]
    for one in inner:
        yield from leaves(one, policy)
    if not inner:
        yield dataset, policy


def is_known(*parts: object) -> bool:
    """Whether parts are MMAction2's or this package's, so that their behavior is known."""
    known = {"mmaction", "mmcv", "mmengine", "mmvidformer", "torchvision"}
    return all(type(part).__module__.partition(".")[0] in known for part in parts)


def classes_of(model: nn.Module) -> dict[str, int]:
    """Return the number of classes of each task of a recognizer; empty if it is unknown."""
    head = getattr(model, "cls_head", None) if isinstance(model, BaseRecognizer) else None
    found = getattr(head, "tasks", None) or dict(num_classes=getattr(head, "num_classes", None))
    return {name: count for name, count in found.items() if isinstance(count, int)}


def check_samples(dataset: object, model: nn.Module, split: str, policy: Mapping) -> Problems:
    """Check a dataset of videos, frames or images. Its policy may allow some missing files."""
    if not isinstance(dataset, (*LISTS, SegmentDataset, ImageFolderDataset)):
        return
    # Not by the dataset's own method, which may turn labels into vectors.
    infos = [BaseDataset.get_data_info(dataset, item) for item in range(len(dataset))]
    labels = [_labels(info.get("label", ())) for info in infos]
    paths = [next((str(x[key]) for key in PATH_KEYS if x.get(key)), "") for x in infos]

    def at(item: int) -> str:
        is_line = type(dataset) in LISTS and dataset._indices is None
        place = f"{dataset.ann_file}, {'line' if is_line else 'entry'} {item + 1}"
        return infos[item].get("where", place)

    steps = dataset.pipeline.transforms
    known = is_known(dataset, getattr(model, "cls_head", model), *steps)
    wrong = _wrong_labels(labels, classes_of(model), dataset.multi_class, split == "test")
    for item, problem in wrong:
        # A validation without labels runs.
        yield known and (split == "train" or labels[item] != (UNLABELED,)), f"{at(item)}: {problem}"
    first: dict[tuple, int] = {}
    keys = [(path, info.get("offset")) for path, info in zip(paths, infos, strict=True)]
    again = [i for i, key in enumerate(keys) if labels[first.setdefault(key, i)] != labels[i]]
    if again and isinstance(dataset, LISTS):
        pair = f"{at(again[0])}: {paths[again[0]]} is also in {at(first[keys[again[0]]])}"
        yield False, f"{pair}, with another label; {len(again)} such entries"
    folder = os.path.normpath("".join(dataset.data_prefix.values()))  # "." if there is none
    outside = [i for i, path in enumerate(paths) if not os.path.normpath(path).startswith(folder)]
    if outside and folder != ".":
        where = f"{at(outside[0])}: {paths[outside[0]]} is outside of data_prefix {folder}"
        yield False, f"{where}; {len(outside)} of {len(infos)} entries"
    if {getattr(step, "io_backend", "disk") for step in steps} - {"disk", "local"}:
        return
    listed = _listed(paths)
    missing = [i for i, x in enumerate(infos) if not listed[i] or x.get("total_frames", 1) < 1]
    if missing:
        resample = policy.get("on_bad_video") == "resample"
        allowed = policy.get("max_bad_share", 0.05) * len(infos) if resample else 0
        what = f"{len(missing)} of {len(infos)} files are missing or have no frames"
        problem = f"{at(missing[0])}: {what}, the first is {paths[missing[0]]!r}"
        yield known and len(missing) > allowed, problem


def _wrong_labels(
    labels: Sequence[tuple[int, ...]], classes: Mapping[str, int], several: bool, optional: bool
) -> Iterator[tuple[int, str]]:
    """Yield the first sample of each problem, and its description."""
    for task, (name, count) in enumerate(classes.items()):
        own = slice(None) if several else slice(task, task + 1)
        pairs = [(item, label) for item, found in enumerate(labels) for label in found[own]]
        wrong = [pair for pair in pairs if not 0 <= pair[1] < count]
        wrong = [pair for pair in wrong if not optional or pair[1] != UNLABELED]
        if wrong:
            # The first one, but after a line without label, which may be meant.
            item, label = max(wrong, key=lambda pair: pair[1] != UNLABELED)
            yield (
                item,
                (
                    f"label must be in 0 to {count - 1} (model.cls_head.{name} is {count}), got "
                    f"{label}; {len(wrong)} of {len(pairs)} labels are wrong"
                ),
            )
    for item, found in enumerate(() if several or not classes else labels):
        if len(found) not in (0, len(classes)):
            needed = f"one label per task of model.cls_head ({len(classes)})"
            yield item, f"a sample must have {needed}, got {len(found)}"
            return


def _labels(label: object) -> tuple[int, ...]:
    """Return class numbers; none for other labels, such as distributions."""
    values = np.ravel(label)
    return tuple(values.tolist()) if values.dtype.kind in "iu" else ()


def _listed(paths: Sequence[str]) -> list[bool]:
    """Return which files exist. Listing folders is faster than asking for each file."""

    @cache
    def names(folder: str) -> set[str]:
        listable = os.path.isdir(folder) and os.access(folder, os.R_OK)
        return {*os.listdir(folder)} if listable else set()

    def exists(path: str) -> bool:
        folder, name = os.path.split(path)
        # MMAction2 looks for a video without suffix as .mp4.
        listed = not names(folder or ".").isdisjoint({name, f"{name}.mp4"})
        return listed or not path or "://" in path or os.path.exists(path)

    return [exists(path) for path in paths]
