"""Annotations: labels that the head does not have, and files that are missing."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
from mmaction.datasets import RawframeDataset, VideoDataset
from mmaction.models.recognizers import BaseRecognizer
from mmengine.dataset import BaseDataset
from torch import nn

from mmvidformer.datasets.bad_videos import SafeDataset
from mmvidformer.datasets.decoding.errors import PATH_KEYS
from mmvidformer.datasets.epic_kitchens import SegmentDataset
from mmvidformer.datasets.single_class import ImageFolderDataset

Problems = Iterator[tuple[bool, str]]  # whether it is an error, and its description
LISTS = (VideoDataset, RawframeDataset)  # whose samples are the lines of a file
UNLABELED = -1  # MMAction2's label of a line that has none


def classes_of(model: nn.Module) -> dict[str, int]:
    """Return the number of classes of each task of a recognizer; empty if it is unknown."""
    head = getattr(model, "cls_head", None) if isinstance(model, BaseRecognizer) else None
    found = getattr(head, "tasks", None) or dict(num_classes=getattr(head, "num_classes", None))
    return {name: count for name, count in found.items() if isinstance(count, int)}


def check_samples(
    dataset: object, model: nn.Module, split: str, policy: SafeDataset | None
) -> Problems:
    """Check a dataset of videos, frames or images. A policy may allow some missing files."""
    if not isinstance(dataset, (*LISTS, SegmentDataset, ImageFolderDataset)):
        return
    # Not by the dataset's own method, which may turn labels into vectors.
    infos = [BaseDataset.get_data_info(dataset, item) for item in range(len(dataset))]

    def at(item: int) -> str:
        is_line = type(dataset) in LISTS and dataset._indices is None
        place = f"{dataset.ann_file}, {'line' if is_line else 'entry'} {item + 1}"
        return infos[item].get("where", place)

    labels = [_labels(info.get("label", ())) for info in infos]
    for task, (name, count) in enumerate(classes_of(model).items()):
        own = slice(None) if dataset.multi_class else slice(task, task + 1)
        wrong = [(item, x) for item, given in enumerate(labels) for x in given[own]]
        wrong = [(item, x) for item, x in wrong if not 0 <= x < count]
        if wrong:
            # The first one, but after a line without label, which may be meant.
            item, label = max(wrong, key=lambda pair: pair[1] != UNLABELED)
            allowed = f"0 to {count - 1} (model.cls_head.{name} is {count})"
            what = f"label must be in {allowed}, got {label}; {len(wrong)} wrong in all"
            if label != UNLABELED or split != "test":  # a validation without labels runs
                yield label != UNLABELED or split == "train", f"{at(item)}: {what}"
    backends = {getattr(step, "io_backend", "disk") for step in dataset.pipeline.transforms}
    if backends - {"disk", "local"}:
        return
    paths = [next((str(x[key]) for key in PATH_KEYS if x.get(key)), "") for x in infos]
    gone = _missing(paths)
    empty = [info.get("total_frames", 1) < 1 for info in infos]
    if missing := [i for i, path in enumerate(paths) if path in gone or empty[i]]:
        resample = policy is not None and policy.on_bad_video == "resample"
        allowed = policy.max_bad_share * len(infos) if resample else 0
        what = f"{len(missing)} of {len(infos)} files are missing or have no frames"
        problem = f"{at(missing[0])}: {what}, the first is {paths[missing[0]]!r}"
        yield len(missing) > allowed, problem


def _labels(label: object) -> tuple[int, ...]:
    """Return class numbers; none for other labels, such as distributions."""
    values = np.ravel(label)
    return tuple(values.tolist()) if values.dtype.kind in "iu" else ()


def _missing(paths: Sequence[str]) -> set[str]:
    """Return paths that do not exist. Listing folders is faster than asking for each file."""
    listed: set[str] = set()
    for folder in {os.path.dirname(path) for path in paths}:
        with suppress(OSError):
            listed.update(os.path.join(folder, name) for name in os.listdir(folder or "."))
    # MMAction2 looks for a video without suffix as .mp4. Addresses are not looked up.
    rest = {path for path in paths if path not in listed and f"{path}.mp4" not in listed}
    return {path for path in rest if path and "://" not in path and not os.path.exists(path)}
