from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.errors import UserError
from mmvidformer.registry import METRICS
from mmvidformer.storage.atomic import write_atomically


@METRICS.register_module()
class SaveScores(BaseMetric):
    """Write the scores of all videos to an ``.npz``; MMEngine's ``DumpResults`` pickles them.

    The file contains ``labels`` (N,) or (N, tasks); ``scores`` (N, classes), or
    (N, views, classes) for a head with ``average_clips=None``, or ``scores_<task>`` for each task
    of a head of several tasks; ``bad_videos`` (N,), true if the video could not be read
    (``BadVideoEvaluator``); ``videos`` (N,), their files, if ``SafeDataset`` names them; and
    ``classes``, those in the dataset's ``metainfo``, if it has any.

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
            if "pred_score" not in sample or "step" in sample:  # parts, of which videos have many
                wrong = "the model has none; use .pkl, or mmvidformer demo --json"
                raise UserError(f"{self.path} has a row of scores for each video, but {wrong}")
            scores = sample["pred_score"]
            named = {"scores": scores}
            if isinstance(scores, Mapping):
                named = {f"scores_{task}": of_task for task, of_task in scores.items()}
            result = {name: array.float().cpu().numpy() for name, array in named.items()}
            labels = sample["gt_label"].cpu().numpy()
            result["labels"] = labels[0] if len(labels) == 1 else labels
            result["bad_videos"] = "bad_video" in sample
            if "video_path" in sample:
                result["videos"] = sample["video_path"]
            self.results.append(result)

    def compute_metrics(self, results: list[dict]) -> dict:
        """Write the file; there are no results."""
        arrays = {}
        for name in results[0]:
            arrays[name] = np.stack([result[name] for result in results])
        names = (self.dataset_meta or {}).get("classes")
        if isinstance(names, list | tuple):
            arrays["classes"] = np.array(names, dtype=str)
        with write_atomically(self.path) as part, part.open("wb") as file:
            np.savez(file, **arrays)
        return {}
