"""Regression: one number a video, or several."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.tasks.annotations import read_values
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.prediction import Bars, Prediction


class Regression(Task):
    """One number a video, or several."""

    name, classes_word = "number", "values"
    head = "mmvidformer.NumberHead"
    metric, best_metric = "mmvidformer.NumberMetric", "number/r2"
    has_one_class = False
    output_name = "values"

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

    def probabilities(self, scores: Tensor, is_logits: bool) -> None:
        """Values have none."""

    def text(self, prediction: Prediction, k: int) -> str:
        """Return all values, such as ``'level 3.2, size 1'``."""
        return ", ".join(f"{name} {value:.4g}" for name, value in prediction.values.items())

    def fields(self, prediction: Prediction, k: int) -> dict[str, Any]:
        """Return the values by name."""
        return {"values": prediction.values}

    def columns(self, prediction: Prediction) -> dict[str, Any]:
        """Return the values by name."""
        return dict(prediction.values)

    def bars(self, prediction: Prediction, k: int, heading: str) -> list[Bars]:
        """Return the values as text."""
        rows = [(f"{name} {value:.4g}", None) for name, value in prediction.values.items()]
        return [Bars(heading, rows)]

    def summary(self, predictions: Sequence[Prediction], k: int) -> str:
        """Return the mean values over the parts."""
        rows = [list(prediction.values.values()) for prediction in predictions]
        means = zip(predictions[0].values, np.mean(rows, axis=0), strict=True)
        return ", ".join(f"{name} {value:.4g}" for name, value in means)

    def describe_output(self, head: nn.Module) -> dict[str, Any]:
        """Describe the output of an exported head."""
        described = super().describe_output(head)
        return {**described, "activation": None, "views": "mean of values"}
