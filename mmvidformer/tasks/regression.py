"""Regression: one number a video, or several."""

from typing import Any

import numpy as np
from mmengine.config import Config

from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.tasks.annotations import read_values
from mmvidformer.tasks.base import Task


class Regression(Task):
    """One number a video, or several."""

    name, classes_word = "number", "values"
    head = "mmvidformer.NumberHead"
    metric, best_metric = "mmvidformer.NumberMetric", "number/r2"

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the values."""
        return dict(type="mmvidformer.ValueDataset", metainfo=dict(classes=list(lists.classes)))

    def model_config(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Give the head the scale of the training data."""
        model = super().model_config(cfg, lists)
        rows = [values for values, _ in read_values(lists.root / "train.csv")[1].values()]
        mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0)
        scale = np.where(deviation > 0, deviation, 1)
        model["cls_head"].update(mean=mean.tolist(), std=scale.tolist())
        return model
