"""Temporal action localization: start, end and class of each action."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch.nn.functional import one_hot

from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.tables import Table
from mmvidformer.tasks.action_segmentation import ActionSegmentation, sorted_labels
from mmvidformer.tasks.annotations import BACKGROUND, parse_spans
from mmvidformer.tasks.base import nothing_found
from mmvidformer.tasks.prediction import Names, Prediction
from mmvidformer.tasks.reading import Annotations

TRAINING_CLIPS = 4  # successive ones of a video
LEAST_SCORE = 0.3  # of a segment that a model finds


class ActionLocalization(ActionSegmentation):
    """Segments: start, end, class and score of each. They may overlap."""

    name, least_classes = "segments", 1
    balances = ()
    head = "mmvidformer.SegmentsHead"
    metric, best_metric = "mmvidformer.SegmentsMetric", "segments/mAP"
    cover_options = dict(overlap=0.0, clips=TRAINING_CLIPS)
    label_transforms = ()
    worst = staticmethod(nothing_found)
    part, activation = "segments", "sigmoid"
    options = ("delay", "min_score")
    runs_frame_by_frame = False
    has_one_class, finds_parts = False, True
    combine = staticmethod(np.max)

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Spans of csv files may be those of frames as well."""
        return False

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read spans, which may overlap."""
        return parse_spans(table, overlap=True, classes=classes)

    def classes_in(self, annotations: Annotations) -> Sequence[str]:
        """Return the sorted names of the classes."""
        return sorted_labels(annotations)

    def learned_classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the classes; the background is none."""
        return tuple(name for name in names if name != BACKGROUND)

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the classes."""
        return {**super().dataset_config(lists), "overlap": True}

    def chance(self, lists: VideoLists, split: str) -> None:
        """Segments are not found by chance."""

    def answers(
        self, output: Any, names: Names, is_logits: bool = False, **where: Any
    ) -> list[Prediction]:
        """Make predictions of ``Instances`` with ``segments``, ``scores`` and ``labels``."""
        name, classes = next(iter(names.items()))
        rows = (one_hot(output.labels.long(), len(classes)) * output.scores[:, None]).numpy()
        return [
            Prediction({name: row}, {name: row}, names, seconds=tuple(ends), task=self, **where)
            for row, ends in zip(rows, output.segments.tolist(), strict=True)
        ]

    def parts(
        self, reader: Any, video: Any, fps: float | None, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Find the segments of a video."""
        return reader.segments_of(video, fps, options.get("min_score", LEAST_SCORE))

    def stream_parts(
        self, reader: Any, frames: Iterable, fps: float, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Find the segments of a stream."""
        limits = options.get("delay", 0.0), options.get("min_score", LEAST_SCORE)
        return reader.segments_of_stream(frames, fps, *limits)

    def none_found(self, options: Mapping[str, Any]) -> str:
        """Say that a video has no part, and how sure one must be."""
        least = options.get("min_score", LEAST_SCORE)
        return f"no {self.part} with a score of at least {least:g} (--min-score)"

    def top(self, prediction: Prediction, k: int, name: str) -> list[tuple[int, str, float]]:
        """Return number, name and score of the class of the segment."""
        return super().top(prediction, 1, name)

    def shown_at(self, predictions: Sequence[Prediction], seconds: float) -> list[Prediction]:
        """Return the segments in which a time is."""
        return [part for part in predictions if part.start <= seconds < part.end]
