from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.errors import UserError
from mmvidformer.registry import METRICS
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.tasks.frames_metric import answers_by_frame
from mmvidformer.video.times import FrameTimes

SPANS = ("found", "true", "runs")  # of which videos have any number


@METRICS.register_module()
class SaveScores(BaseMetric):
    """Write the scores of all videos to an ``.npz``; MMEngine's ``DumpResults`` pickles them.

    The file contains ``labels`` (N,) or (N, tasks); ``scores`` (N, classes), or
    (N, views, classes) for a head with ``average_clips=None``, or ``scores_<task>`` for each task
    of a head of several tasks; ``bad_videos`` (N,), true if the video could not be read
    (``BadVideoEvaluator``); ``videos`` (N,), their files, if ``SafeDataset`` names them; and
    ``classes``, those in the dataset's ``metainfo``, if it has any.

    Of segments and moments there are ``found`` and ``true`` in place of scores and labels: the
    number of the video, start, end and class of each, and of those that were found the score.
    Of classes over time there are ``runs`` of frames in which neither answer nor truth changes: the
    number of the video, start, end, answer, truth (-1: none) and the answer's mean probability.

    Args:
        path: The file, with the suffix ``.npz``. Its folder is created.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.
    """

    default_prefix = ""

    def __init__(self, path: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.path = Path(path).with_suffix(".npz")

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store the answers and the labels of each sample."""
        for sample in data_samples:
            row = self.row_of(sample)
            if row is None:  # parts, of which videos have many
                wrong = "the model has none; use .pkl, or mmvidformer demo --json"
                raise UserError(f"{self.path} has a row of scores for each video, but {wrong}")
            self.results.append(row)

    @staticmethod
    def row_of(sample: Mapping) -> dict[str, Any] | None:
        """Return what the file has of a sample; None if it has no place for its answers."""
        row = {"bad_videos": "bad_video" in sample}
        if "video_path" in sample:
            row["videos"] = sample["video_path"]
        if "segments" in (spans := sample.get("pred_instances", ())) and "spans" in sample:
            columns = [*spans["segments"].T, spans["labels"], spans["scores"]]
            row["found"] = np.stack([column.float().cpu().numpy() for column in columns], axis=1)
            return row | {"true": np.asarray(sample["spans"], float).reshape(-1, 3)}
        if "background" in sample:  # of classes over time; a bad video has no steps
            return row | {"runs": np.zeros((0, 5)) if row["bad_videos"] else _runs_of(sample)}
        if "pred_score" not in sample or "step" in sample:
            return None
        scores = sample["pred_score"]
        named = {"scores": scores}
        if isinstance(scores, Mapping):
            named = {f"scores_{task}": of_task for task, of_task in scores.items()}
        labels = sample["gt_label"].cpu().numpy()
        row["labels"] = labels[0] if len(labels) == 1 else labels
        return row | {name: array.float().cpu().numpy() for name, array in named.items()}

    def arrays_of(self, results: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
        """Return what the file has, by name."""
        arrays = {}
        for name in results[0]:
            rows = [result[name] for result in results]
            if name in SPANS:
                rows = [np.insert(spans, 0, i, axis=1) for i, spans in enumerate(rows)]
            arrays[name] = np.concatenate(rows) if name in SPANS else np.stack(rows)
        names = (self.dataset_meta or {}).get("classes")
        if isinstance(names, list | tuple):
            arrays["classes"] = np.array(names, dtype=str)
        return arrays

    def compute_metrics(self, results: list[dict]) -> dict:
        """Write the file; there are no results."""
        with write_atomically(self.path) as part, part.open("wb") as file:
            np.savez(file, **self.arrays_of(results))
        return {}


def _runs_of(sample: Mapping) -> np.ndarray:
    predicted, scores, truth = answers_by_frame(sample)
    changes = np.diff(np.stack([predicted, truth]), axis=1).any(axis=0)
    starts = np.append(0, np.flatnonzero(changes) + 1)
    ends = np.append(starts[1:], len(truth))
    means = np.add.reduceat(scores, starts) / (ends - starts)
    times = FrameTimes(sample["avg_fps"])
    seconds = times.seconds(starts), times.seconds(ends)
    return np.stack([*seconds, predicted[starts], truth[starts], means], axis=1)
