"""Temporal action localization: start, end and class of each action."""

from typing import Any

import numpy as np

from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.tasks.action_segmentation import ActionSegmentation
from mmvidformer.tasks.base import Task

TRAINING_CLIPS = 4  # successive ones of a video


class ActionLocalization(ActionSegmentation):
    """Segments: start, end, class and score of each. They may overlap."""

    name, least_classes = "segments", 1
    balances = ()
    head = "mmvidformer.SegmentsHead"
    metric, best_metric = "mmvidformer.SegmentsMetric", "segments/mAP"
    sampler = dict(overlap=0.0, clips=TRAINING_CLIPS)
    training_steps = ()

    def class_sizes(self, lists: VideoLists) -> np.ndarray:
        """Classes are not balanced."""
        return Task.class_sizes(self, lists)

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the classes."""
        return {**super().dataset_config(lists), "overlap": True}
