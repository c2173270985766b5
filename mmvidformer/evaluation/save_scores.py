"""Scores and labels of a test, in a file that is safe to read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.registry import METRICS


@METRICS.register_module()
class SaveScores(BaseMetric):
    """Write the scores of all videos to an ``.npz``; MMEngine's ``DumpResults`` pickles them.

    The file contains ``labels`` (N,) or (N, tasks); ``scores`` (N, classes), or
    (N, views, classes) for a head with ``average_clips=None``, or ``scores_<task>`` for each task
    of a head of several tasks; and ``bad_videos`` (N,), true if the video could not be read, in
    which case the right class has the lowest score (``BadVideoEvaluator``); and ``classes``, the
    class names in the dataset's ``metainfo``, if it has any. ``numpy.load`` reads it without
    running code of the file.

    Args:
        path: The file, with the suffix ``.npz``. Its folder is created.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.
    """

    default_prefix = ""

    def __init__(self, path: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.path = Path(path).with_suffix(".npz")

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store the scores and the labels of each sample."""
        for sample in data_samples:
            scores = sample["pred_score"]
            named = {"scores": scores}
            if isinstance(scores, Mapping):
                named = {f"scores_{task}": one for task, one in scores.items()}
            result = {name: one.float().cpu().numpy() for name, one in named.items()}
            labels = sample["gt_label"].cpu().numpy()
            result["labels"] = labels[0] if len(labels) == 1 else labels
            result["bad_videos"] = "bad_video" in sample
            self.results.append(result)

    def compute_metrics(self, results: list[dict]) -> dict:
        """Write the file; there are no results."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.stack([r[name] for r in results]) for name in results[0]}
        names = (self.dataset_meta or {}).get("classes")
        if isinstance(names, list | tuple):
            arrays["classes"] = np.array(names, dtype=str)
        np.savez(self.path, **arrays)
        return {}
