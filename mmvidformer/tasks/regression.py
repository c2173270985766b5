"""Regression: one number a video, or several."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import nn

from mmvidformer.data.list_folders import ListFacts, VideoLists
from mmvidformer.data.table_numbers import read_float
from mmvidformer.data.tables import Row, Table
from mmvidformer.errors import UserError
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.reading import Annotations
from mmvidformer.tasks.rows import value_cells

# Columns that hold no values.
OTHER_COLUMNS = ("video", "split", "group", "fold", "start", "end", "label")
BINS = 10  # of values, which splits get equal shares of


class Regression(Task):
    """One number a video, or several."""

    name, has_classes = "number", False
    head = "mmvidformer.NumberHead"
    metric, best_metric = "mmvidformer.NumberMetric", "number/r2"
    has_one_class, activation = False, None
    output_name, value_outputs = "values", ("values",)

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whether there are columns of values."""
        return bool(_value_names(columns))

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read the values of each video (``parse_values``)."""
        return parse_values(table)

    def list_columns(self, annotations: Annotations) -> Sequence[str]:
        """Return the video and the names of the values."""
        return ("video", *annotations.names)

    def classes_in(self, annotations: Annotations) -> None:
        """Values have no file of names."""

    def classes_of(self, annotations: Annotations) -> dict[str, list[Any]]:
        """Return the tenth of the videos that each is in, by its first value."""
        values = {video: numbers[0].values[0] for video, numbers in annotations.videos.items()}
        order = sorted(values, key=values.__getitem__)
        return {video: [BINS * rank // len(order)] for rank, video in enumerate(order)}

    @staticmethod
    def worst(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sample without values."""
        return {**sample, "pred_score": torch.full_like(sample["pred_score"], torch.nan)}

    def chance(self, lists: VideoLists, split: str) -> float:
        """Return R2 of the mean of all values, 0."""
        return 0.0

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the values."""
        return dict(type="mmvidformer.ValueDataset", metainfo=dict(classes=list(lists.classes)))

    def list_facts(self, annotations: Annotations, classes: Sequence[str]) -> ListFacts:
        """Return the values of each video."""
        videos = annotations.videos.values()
        return ListFacts(values=tuple(numbers.values for (numbers,) in videos))

    def fragment(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Return the fragment.

        Raises:
            UserError: If the validation list cannot tell which checkpoint is the best.
        """
        if lists.counts.get("val") and cfg.get("val_evaluator"):
            if len({*lists.facts["val"].values}) < 2:
                wanted = "R^2, which chooses the best checkpoint, needs different values"
                file = lists.root / "val.csv"
                raise UserError(f"{file}: {wanted}; add some, or leave the list empty")
        return super().fragment(cfg, lists)

    def model_config(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Give the head the scale of the training data."""
        model = super().model_config(cfg, lists)
        rows = lists.facts["train"].values
        mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0)
        scale = np.where(deviation > 0, deviation, 1)
        model["cls_head"].update(mean=mean.tolist(), std=scale.tolist())
        return model

    def cells(self, prediction: Prediction, k: int | None = None) -> dict[str, Any]:
        """Return the values by name."""
        return value_cells(prediction.values)

    def summary(self, predictions: Sequence[Prediction], k: int) -> str:
        """Return the mean values over the parts."""
        rows = [list(prediction.values.values()) for prediction in predictions]
        means = zip(predictions[0].values, np.mean(rows, axis=0), strict=True)
        return ", ".join(self.value_texts(dict(means)))

    def describe_scores(self, head: nn.Module) -> dict[str, Any]:
        """Describe the values."""
        return {**super().describe_scores(head), "views": "mean of values"}


class Numbers(NamedTuple):
    """The values of a video, and the line of the file."""

    values: tuple[float, ...]
    where: str


def parse_values(table: Table) -> Annotations:
    """Read a table with the column ``video`` and a column for each value.

    Raises:
        UserError: If a column is missing.
    """
    names = _value_names(table.columns)
    annotations = Annotations(table, names)

    def read_row(row: Row, place: str) -> list[Numbers]:
        values = tuple(read_float(row, name, place) for name in names)
        if any(earlier.values != values for earlier in annotations.videos[row["video"]]):
            first = annotations.places[row["video"]]
            raise UserError(f"{place}: {row['video']} is already in {first}, with other values")
        return [Numbers(values, place)]

    annotations.add_rows(table.read("video", numbers=names), read_row)
    if annotations.rows and not names:
        raise UserError(f"{table.file} must have a column of values beside video")
    return annotations


def _value_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a csv file that hold values."""
    return tuple(name for name in columns if name and name not in OTHER_COLUMNS)
