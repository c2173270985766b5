"""Classification: one class a video."""

from pathlib import Path

import numpy as np

from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import VideoLists, read_lists
from mmvidformer.tasks.base import Task


class Classification(Task):
    """One class a video: configs stay as they are."""

    name, suffix, least_classes = "classes", "txt", 2
    balances = ("weights", "sampling")
    has_probes = True

    def read_lists(self, folder: str | Path) -> VideoLists:
        """Read the lists that ``mmvidformer data list FOLDER`` writes."""
        return read_lists(folder)

    def class_sizes(self, lists: VideoLists) -> np.ndarray:
        """Return the number of training videos of each class."""
        sizes = np.zeros(len(lists.classes), dtype=int)
        for line, _ in read_list(lists.root / "train.txt", lists.delimiter):
            for number in line.strip().split(lists.delimiter)[1:]:
                sizes[int(number)] += 1
        return sizes
