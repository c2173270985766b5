"""Checks of pairs of samples: a video twice in a list, or in two splits."""

import mmvidformer.registry  # noqa: F401  isort: skip  (repairs MMAction2 first)

import os
from collections.abc import Mapping, Sequence

from mmaction.datasets import VideoDataset
from mmengine.dataset import BaseDataset

from mmvidformer.data.listed_videos import ListedVideoDataset, ListedVideos
from mmvidformer.engine.preflight.checks import LISTS, MOST_FILES, Problems
from mmvidformer.storage.targets import identity_of
from mmvidformer.video.errors import path_of


def check_pairs(datasets: Mapping[str, Sequence[object]]) -> Problems:
    """Compare the samples of each dataset, and the videos of training with those of other splits.

    A training list may repeat lines for balance. Links are looked up only if there are few videos.

    Args:
        datasets: Datasets of each split. Those that do not read videos of a file are left out.
    """
    listed = [
        (split, dataset, _paths_of(dataset))
        for split, of_split in datasets.items()
        for dataset in of_split
        if isinstance(dataset, LISTS)
    ]
    tell = (
        identity_of if sum(len(paths) for *_, paths in listed) <= MOST_FILES else os.path.normpath
    )
    of_training: set[object] = set()
    for split, dataset, paths in listed:
        keys = [tell(path) for path in paths]
        if type(dataset) in (VideoDataset, ListedVideoDataset) and not dataset.multi_class:
            yield from _check_repeated(dataset, paths, keys, split)
        if split == "train":
            of_training.update(keys)
            continue
        shared = [path for path, key in zip(paths, keys, strict=True) if key in of_training]
        if shared:
            count = f"{len(shared)} of {len(paths)} videos of {split}_dataloader"
            what = f"are in train_dataloader too, such as {shared[0]!r}: they measure no new videos"
            yield False, f"{count} {what}"


def _check_repeated(
    dataset: VideoDataset, paths: Sequence[str], keys: Sequence, split: str
) -> Problems:
    """Find samples that name a video again; in training, those with another label."""
    numbers: dict[object, int] = {}
    repeated, contradicting = [], []
    for number, key in enumerate(keys):
        first = numbers.setdefault(key, number)
        if first != number:
            is_same = _label_of(dataset, first) == _label_of(dataset, number)
            (repeated if is_same else contradicting).append((first, number))
    pairs_by_label = {"another": contradicting}
    if split != "train":
        pairs_by_label["the same"] = repeated
    for which, pairs in pairs_by_label.items():
        if pairs:
            first, number = pairs[0]
            what = f"videos that are named again, with {which} label: {len(pairs)}"
            where = f"such as {paths[number]!r} in entries {first + 1} and {number + 1}"
            yield False, f"{dataset.ann_file}: {what}, {where}"


def _paths_of(dataset: BaseDataset) -> list[str]:
    """Return the path of each sample."""
    if isinstance(getattr(dataset, "data_list", None), ListedVideos):
        return dataset.data_list.paths()
    return [path_of(BaseDataset.get_data_info(dataset, number)) for number in range(len(dataset))]


def _label_of(dataset: VideoDataset, number: int) -> int:
    return BaseDataset.get_data_info(dataset, number)["label"]
