"""MMAction2 1.2's ``AccMetric`` counts classes and labels that are not annotated.

Symptom: ``mean_class_accuracy`` depends on which wrong class was predicted, since a class without
videos counts as 0 as soon as one is taken for it (``evaluation/functional/accuracy.py``). The label
-1 of a line without one counts as wrong, and as a class in the mean. The repair takes the mean over
the classes with videos, as scikit-learn's ``balanced_accuracy_score``, and leaves videos without a
label out; if no video has one, there are no results. Other results stay.
"""

from collections.abc import Sequence
from logging import WARNING

import numpy as np
from mmaction.evaluation.metrics import acc_metric
from mmengine.logging import print_log

_compute_metrics = acc_metric.AccMetric.compute_metrics


def mean_class_accuracy(scores: Sequence[np.ndarray], labels: Sequence[int]) -> float:
    """Return the mean over the classes with videos of the share of these that are right."""
    is_right = np.argmax(scores, axis=1) == np.asarray(labels)
    return float(np.mean([is_right[labels == label].mean() for label in np.unique(labels)]))


def _labeled_metrics(metric: acc_metric.AccMetric, results: list[dict]) -> dict:
    labeled = [result for result in results if np.ndim(result["label"]) or result["label"] >= 0]
    if len(labeled) < len(results):
        count = f"{len(labeled)} of {len(results)} videos have a label"
        what = "the accuracy is that of these" if labeled else "there is no accuracy"
        print_log(f"{count}: {what}", logger="current", level=WARNING)
    return _compute_metrics(metric, labeled) if labeled else {}


acc_metric.mean_class_accuracy = mean_class_accuracy
acc_metric.AccMetric.compute_metrics = _labeled_metrics
