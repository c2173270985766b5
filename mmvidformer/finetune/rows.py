"""Videos of lists, or files of their features, with their classes and groups."""

import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor
from torch.utils.data import default_collate

from mmvidformer.data.list_folders import VideoLists, read_groups
from mmvidformer.data.lists import read_list
from mmvidformer.data.splits import SPLITS
from mmvidformer.errors import UserError
from mmvidformer.storage.targets import identity_of

logger = logging.getLogger("mmvidformer")


class Row(NamedTuple):
    """A file of a video, or of its features, its class, and the group that a list states.

    ``clip`` is the number of the clip in the features; 0 is the center view of the video.
    """

    file: Path
    label: int
    group: str | None = None
    clip: int = 0


def warn_of_shared_videos(lists: VideoLists) -> None:
    """Say which videos of training are in another list too, as training does."""
    of_training = {identity_of(row.file) for row in videos_of(lists, "train")}
    for split in SPLITS[1:]:
        videos = [row.file for row in videos_of(lists, split)] if lists.counts[split] else []
        shared = [video for video in videos if identity_of(video) in of_training]
        if shared:
            logger.warning(
                "%d of %d videos of %s are in train too, such as %s: they measure no new videos",
                *(len(shared), len(videos), split, shared[0]),
            )


def videos_of(lists: VideoLists, split: str) -> list[Row]:
    """Return path, class and group of each video of a list; of ``val`` if ``test`` is empty."""
    if split == "test" and not lists.counts["test"]:
        split = "val"
    if not lists.counts[split]:
        return []
    file = lists.root / f"{split}.txt"
    return _read_rows(file, file.stat().st_mtime_ns)


@lru_cache(len(SPLITS))  # a run asks several times; ``changed``: when the file was
def _read_rows(file: Path, changed: int) -> list[Row]:
    videos = []
    groups = read_groups(file.parent)
    for number, line in enumerate(read_list(file), start=1):
        if len(line.labels) != 1:
            raise UserError(f"{file}, line {number}: {line.path} must have one label")
        video = file.parent / line.path
        videos.append(Row(video, line.labels[0], groups.get(str(video))))
    return videos


def clips_of(row: Row, most: int) -> list[Row]:
    """Return the clips of the features of a video, or ``most`` of them, at equal distances."""
    count = len(np.load(row.file, mmap_mode="r"))
    numbers = np.linspace(0, count, min(count, most), endpoint=False).astype(int).tolist()
    return [row._replace(clip=number) for number in numbers]


def load_rows(rows: Sequence[Row]) -> list[Tensor]:
    """Read features (N, ...) and classes (N,)."""
    clips = [np.array(np.load(row.file, mmap_mode="r")[row.clip]) for row in rows]
    return default_collate([(clip, row.label) for clip, row in zip(clips, rows, strict=True)])
