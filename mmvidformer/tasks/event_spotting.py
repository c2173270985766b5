"""Event spotting: the moment and the class of each event."""

from collections import Counter
from collections.abc import Sequence

from mmvidformer.data.list_folders import ListFacts, VideoLists
from mmvidformer.data.tables import Table
from mmvidformer.tasks.action_localization import ActionLocalization
from mmvidformer.tasks.annotations import COLUMNS, MOMENT_COLUMNS, parse_spans
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.reading import Annotations

SHOWN = 1.0  # seconds for which a moment is drawn


class EventSpotting(ActionLocalization):
    """Moments: segments that end when they start, with class and score of each."""

    name, size_unit = "moments", "moments"
    nouns = ("moment", "")
    head = "mmvidformer.MomentsHead"
    metric, best_metric = "mmvidformer.MomentsMetric", "moments/mean"
    part, activation = "moments", "softmax"

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whether there are times; start and end may be those of spans."""
        return "time" in columns

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read moments from a table with a ``time``, or with ``start`` and an equal ``end``."""
        return parse_spans(table, overlap=True, classes=classes, moments=True)

    def list_columns(self, annotations: Annotations) -> Sequence[str]:
        """Return the columns that the file has."""
        has_times = any(row.get("time") for row in annotations.rows)
        has_spans = any("start" in row for row in annotations.rows)
        return COLUMNS if has_spans and not has_times else MOMENT_COLUMNS

    def list_facts(self, annotations: Annotations, classes: Sequence[str]) -> ListFacts:
        """Return the number of moments of each class, and the ends of the videos."""
        videos = annotations.videos.values()
        counts = Counter(moment.label for moments in videos for moment in moments)
        sizes = tuple(counts[name] for name in classes)
        return super().list_facts(annotations, classes)._replace(sizes=sizes)

    def dataset_config(self, lists: VideoLists) -> dict[str, object]:
        """Return the dataset, which reads moments."""
        return {**super().dataset_config(lists), "moments": True}

    def shown_at(self, predictions: Sequence[Prediction], seconds: float) -> list[Prediction]:
        """Return the moments of the last second."""
        return [part for part in predictions if part.moment <= seconds < part.moment + SHOWN]
