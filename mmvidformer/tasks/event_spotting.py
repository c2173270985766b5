"""Event spotting: the moment and the class of each event."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmvidformer.data.own_videos import VideoLists
from mmvidformer.tasks.action_localization import ActionLocalization
from mmvidformer.tasks.annotations import COLUMNS, MOMENT_COLUMNS, parse_spans
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.reading import Annotations

SHOWN = 1.0  # seconds for which a moment is drawn


class EventSpotting(ActionLocalization):
    """Moments: segments that end when they start, with class and score of each."""

    name, size_unit = "moments", "moments"
    field_names = ("event-spotting", "action-spotting")
    head = "mmvidformer.MomentsHead"
    metric, best_metric = "mmvidformer.MomentsMetric", "moments/mAP"
    part, activation = "moments", "softmax"

    def fits_file(self, file: Path, columns: Sequence[str]) -> bool:
        """Whether it is a csv file with times; start and end may be those of spans."""
        return "time" in columns

    def read(
        self, file: str | Path, classes: Sequence[str] = (), folder: Path | None = None
    ) -> Annotations:
        """Read moments from a csv file with a ``time``, or with ``start`` and an equal ``end``."""
        return parse_spans(file, overlap=True, classes=classes, moments=True)

    def list_columns(self, annotations: Annotations) -> Sequence[str]:
        """Return the columns that the file has."""
        has_time = any("time" in row for row in annotations.rows)
        return MOMENT_COLUMNS if has_time else COLUMNS

    def class_sizes(self, lists: VideoLists, split: str = "train") -> np.ndarray:
        """Return the number of moments of each class."""
        videos = self.read(lists.root / f"{split}.csv").check().videos.values()
        counts = Counter(moment.label for moments in videos for moment in moments)
        return np.array([counts[name] for name in lists.classes])

    def dataset_config(self, lists: VideoLists) -> dict[str, object]:
        """Return the dataset, which reads moments."""
        return {**super().dataset_config(lists), "moments": True}

    def shown_at(self, predictions: Sequence[Prediction], seconds: float) -> list[Prediction]:
        """Return the moments of the last second."""
        return [part for part in predictions if part.moment <= seconds < part.moment + SHOWN]
