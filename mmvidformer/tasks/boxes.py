"""Boxes of persons or objects at moments of videos, with their classes: AVA's annotations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from mmaction.datasets import VideoDataset

from mmvidformer.datasets.csv_rows import read_number, read_rows, read_text
from mmvidformer.datasets.own_videos import find_named
from mmvidformer.datasets.transforms.rates import known_times, rescale
from mmvidformer.datasets.transforms.sampling import FrameSampler
from mmvidformer.registry import DATASETS, TRANSFORMS
from mmvidformer.tasks.annotations import need_rows, read_float, read_video

COLUMNS = ("video", "second", "x1", "y1", "x2", "y2", "class", "person")
CORNERS = COLUMNS[2:6]
Moment = tuple[str, int]  # video and second
Box = tuple[float, ...]


def read_boxes(file: str | Path, classes: int | None = None) -> dict[Moment, dict[Box, set[int]]]:
    """Read annotations in AVA's format: the classes, from 1, of each box of each moment.

    Rows have no header: name of the video, whole second, left, top, right and bottom as shares of
    width and height, number of the class, and perhaps the person. A box of several classes has
    several rows.

    Raises:
        ValueError: As ``read_box`` and ``line_faults``.
    """
    if fault := next(line_faults(file), None):
        raise ValueError(fault)
    found: dict[Moment, dict[Box, set[int]]] = {}
    for row, where in read_rows(file, header=COLUMNS):
        moment, box, label = read_box(row, where, classes)
        found.setdefault(moment, {}).setdefault(box, set()).add(label)
    return found


def line_faults(file: str | Path) -> Iterator[str]:
    """Describe the lines that MMAction2's metric cannot read, or reads as another video's."""
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        name = line.partition(",")[0]
        if not line:
            yield f"{file}, line {number} is empty; remove it"
        elif name != name.strip():
            yield f"{file}, line {number}: {name!r} has a space at an end; remove it"


def read_box(
    row: Mapping[str, str], where: str, classes: int | None = None
) -> tuple[Moment, Box, int]:
    """Read a row: its moment, its box and its class.

    Raises:
        ValueError: If it has no video or numbers, the box is not inside the frame, or the class is
            none of ``classes``; begins with ``where``.
    """
    moment = read_video(row, where), read_number(row, "second", where)
    x1, y1, x2, y2 = box = tuple(read_float(row, name, where) for name in CORNERS)
    label = read_number(row, "class", where)
    if not (0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1):
        raise ValueError(f"{where}: box must be x1 < x2 and y1 < y2 in 0 to 1, got {box}")
    if label < 1 or classes and label > classes:
        raise ValueError(f"{where}: class must be in 1 to {classes or '...'}, got {label}")
    return moment, box, label


@DATASETS.register_module()
class BoxDataset(VideoDataset):
    """Moments of video files with boxes, in the format of AVA's csv files (``read_boxes``).

    MMAction2's ``AVADataset`` reads the same files with folders of frames. A video is the file of
    its name, with any suffix, in the folder or below. Arguments are those of ``VideoDataset``;
    ``metainfo`` has the classes.

    Raises:
        FileNotFoundError: If a video is missing.
        ValueError: As ``read_boxes``, or if two files have the name of a video.
    """

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        count = len(self.metainfo["classes"])
        moments = read_boxes(self.ann_file, count)
        names = {video for video, _ in moments}
        paths = find_named(self.data_prefix["video"] or ".", names)
        found = []
        for (video, second), boxes in moments.items():
            if video not in paths:
                raise FileNotFoundError(f"{self.ann_file}: there is no file of video {video!r}")
            labels = [[float(i in own) for i in range(1, count + 1)] for own in boxes.values()]
            info = dict(filename=str(paths[video]), video_id=video, timestamp=second)
            info |= dict(gt_bboxes=np.array(list(boxes), np.float32))
            found.append(info | {"gt_labels": torch.tensor(labels)})
        return need_rows(found, self.ann_file)


@TRANSFORMS.register_module()
@dataclass
class FramesAround(FrameSampler):
    """Take a clip of regular frames around a moment, which ``timestamp`` gives in seconds.

    Frames before the begin or after the end are replaced by the first or last one.

    Args:
        clip_len: Number of frames.
        frame_interval: Interval between frames at ``target_fps``.
        target_fps: Frame rate that the interval refers to. None for that of the file.

    Raises:
        BadVideo: As ``number_by_time``.
    """

    clip_len: int
    frame_interval: int = 1
    target_fps: float | None = None

    def needs_times(self, results: dict) -> bool:
        """Return True: a box stands at a second."""
        return True

    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (1, T)."""
        step = rescale(results, self.frame_interval, self.target_fps)
        steps = (np.arange(self.clip_len) - self.clip_len // 2) * step
        center = known_times(results).at(results["timestamp"])
        return np.clip(center + np.floor(steps + 1e-6).astype(int), 0, total - 1)[None]
