"""Annotations: labels that the head does not have, duplicates, and files that are missing."""

import os
from collections.abc import Iterator, Mapping, Sequence

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
    """Yield the datasets inside wrappers such as ``RepeatDataset`` and ``ConcatDataset``.

    Each comes with its policy for bad videos: that of a ``SafeDataset`` around it, or ``policy``.
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
    gone = _missing(paths)
    empty = [info.get("total_frames", 1) < 1 for info in infos]
    if missing := [i for i, path in enumerate(paths) if path in gone or empty[i]]:
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
        wrong = [(item, x) for item, found in enumerate(labels) for x in found[own]]
        wrong = [(item, x) for item, x in wrong if not 0 <= x < count]
        wrong = [(item, x) for item, x in wrong if x != UNLABELED or not optional]
        if wrong:
            # The first one, but after a line without label, which may be meant.
            item, label = max(wrong, key=lambda pair: pair[1] != UNLABELED)
            allowed = f"0 to {count - 1} (model.cls_head.{name} is {count})"
            yield item, f"label must be in {allowed}, got {label}; {len(wrong)} wrong in all"
    bad = [item for item, found in enumerate(labels) if len(found) not in (0, len(classes))]
    if classes and bad and not several:
        needed = f"one label per task of model.cls_head ({len(classes)})"
        yield bad[0], f"a sample must have {needed}, got {len(labels[bad[0]])}"


def _labels(label: object) -> tuple[int, ...]:
    """Return class numbers; none for other labels, such as distributions."""
    values = np.ravel(label)
    return tuple(values.tolist()) if values.dtype.kind in "iu" else ()


def _missing(paths: Sequence[str]) -> set[str]:
    """Return paths that do not exist. Listing folders is faster than asking for each file."""
    folders = {os.path.dirname(path) for path in paths}
    listable = [
        one for one in folders if os.path.isdir(one or ".") and os.access(one or ".", os.R_OK)
    ]
    listed = {os.path.join(one, name) for one in listable for name in os.listdir(one or ".")}
    # MMAction2 looks for a video without suffix as .mp4. Addresses are not looked up.
    rest = {path for path in paths if path not in listed and f"{path}.mp4" not in listed}
    return {path for path in rest if path and "://" not in path and not os.path.exists(path)}
