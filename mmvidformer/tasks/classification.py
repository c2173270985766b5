"""Classification: one class a video."""

import numpy as np

from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.tasks.base import Task


class Classification(Task):
    """One class a video: configs stay as they are."""

    name, suffix, least_classes = "classes", "txt", 2
    balances = ("weights", "sampling")
    has_probes = True

    def class_sizes(self, lists: VideoLists) -> np.ndarray:
        """Return the number of training videos of each class."""
        sizes = np.zeros(len(lists.classes), dtype=int)
        for line, _ in read_list(lists.root / "train.txt", lists.delimiter):
            for number in line.strip().split(lists.delimiter)[1:]:
                sizes[int(number)] += 1
        return sizes
