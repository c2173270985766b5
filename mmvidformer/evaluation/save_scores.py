"""Scores and labels of a test in a file that is safe to read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.registry import METRICS


@METRICS.register_module()
class SaveScores(BaseMetric):
    """Write the scores of all videos to an ``.npz``; MMEngine's ``DumpResults`` pickles them.

    The file holds ``labels`` (N,), or (N, tasks), and ``scores`` (N, classes), or
    (N, views, classes) of a head with ``average_clips=None``; of a head of several tasks
    ``scores_<task>`` each; and ``bad_videos`` (N,), true where the video could not be read: the
    right class then has the lowest score (``BadVideoEvaluator``). It is read with
    ``numpy.load``, which runs no code of the file.

    Args:
        path: The file; its folder is made.
        collect_device: Where results of several processes meet, ``'cpu'`` or ``'gpu'``.

    Raises:
        ValueError: If ``path`` does not end in ``.npz``.
    """

    def __init__(self, path: str, collect_device: str = "cpu") -> None:
        super().__init__(collect_device=collect_device, prefix="scores")  # MMEngine asks for one
        if Path(path).suffix != ".npz":
            raise ValueError(f"scores are saved in an .npz file, got {path}")
        self.path = Path(path)

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Keep the scores and the labels of each sample."""
        for sample in data_samples:
            scores = sample["pred_score"]
            named = (
                {f"scores_{task}": one for task, one in scores.items()}
                if isinstance(scores, Mapping)
                else {"scores": scores}
            )
            result = {name: one.float().cpu().numpy() for name, one in named.items()}
            labels = sample["gt_label"].cpu().numpy()
            result["labels"] = labels[0] if len(labels) == 1 else labels
            result["bad_videos"] = "bad_video" in sample
            self.results.append(result)

    def compute_metrics(self, results: list[dict]) -> dict:
        """Write the file; there are no figures."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self.path, **{name: np.stack([r[name] for r in results]) for name in results[0]})
        return {}
