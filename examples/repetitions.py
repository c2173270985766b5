"""Task: count the repetitions of an action, --task repetitions:Repetitions (docs/extending.md)."""

import numpy as np
import torch.nn.functional as F
from mmengine.evaluator import BaseMetric

from mmvidformer.models.task_heads import NumberHead
from mmvidformer.registry import METRICS, MODELS
from mmvidformer.tasks.regression import Regression


class Repetitions(Regression):
    """How often an action is repeated: the columns ``video`` and ``count``."""

    name = "repetitions"
    head, metric = "mmvidformer.CountHead", "mmvidformer.CountMetric"
    best_metric = "count/off_by_one"

    def read(self, table, classes=()):
        """Read the columns, and note counts that are none as faults."""
        annotations = super().read(table)
        for rows in annotations.videos.values():
            for values, place in rows:
                if any(value < 0 or value % 1 for value in values):
                    wrong = f"a count must be a whole number from 0, got {values[0]:g}"
                    annotations.faults.append(f"{place}: {wrong}")
        return annotations


@MODELS.register_module()
class CountHead(NumberHead):
    """Counts, which are not negative."""

    def forward(self, x, **kwargs):
        """Counts (N, 1) of features."""
        return F.softplus(super().forward(x, **kwargs))


@METRICS.register_module()
class CountMetric(BaseMetric):
    """The metrics of RepNet: counts that are off by one at most, and the mean error."""

    default_prefix = "count"
    shares = ("off_by_one",)  # results that are shown in percent
    worst = staticmethod(Regression.worst)  # of a video that cannot be read: no number

    def process(self, data_batch, data_samples):
        """Keep a prediction and the truth of each sample."""
        for sample in data_samples:
            self.results.append((sample["pred_score"].item(), sample["gt_label"].item()))

    def compute_metrics(self, results):
        """Both over all samples; those without a prediction are no error."""
        counts, truth = np.array(results).T
        errors = np.abs(counts - truth)
        return {"off_by_one": float(np.mean(errors <= 1)), "error": float(np.nanmean(errors))}
