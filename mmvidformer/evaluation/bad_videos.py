"""Metrics when some videos could not be read."""

import copy
from collections.abc import Sequence

import torch
from mmengine.dist import all_gather_object, get_dist_info
from mmengine.evaluator import DumpResults, Evaluator
from mmengine.logging import MMLogger
from mmengine.structures import BaseDataElement

from mmvidformer.evaluation.files import ChallengeJson, SaveScores

# Metrics that write a file, which a second evaluation would overwrite.
WRITERS = (DumpResults, ChallengeJson, SaveScores)


class BadVideoEvaluator:
    """An evaluator that counts bad videos as wrong, and also evaluates without them.

    ``mmvidformer.SafeDataset`` flags bad samples in test mode. Their scores come from another video
    and are replaced: the true class gets the lowest score. If there are bad samples, the results
    have their number as ``bad_videos``, and each metric a second time as ``good_videos/...``, over
    the good samples alone, unless it does not keep one result per sample.

    Ranks must have every n-th sample, the last ones repeated ones, as with MMEngine's
    ``DefaultSampler`` and ``collect_results``.

    Args:
        evaluator: Evaluator of a loop. Its attributes are available here too.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._bad: list[bool] = []  # whether each sample is bad, so far

    def __getattr__(self, name: str) -> object:
        if name == "evaluator":  # not set yet, while this is copied
            raise AttributeError(name)
        return getattr(self.evaluator, name)

    def process(
        self, data_samples: Sequence[BaseDataElement], data_batch: object | None = None
    ) -> None:
        """Process a batch, after replacing the scores of bad samples."""
        bad = ["bad_video" in sample for sample in data_samples]
        self._bad += bad
        pairs = zip(data_samples, bad, strict=True)
        samples = [_with_worst_scores(sample) if is_bad else sample for sample, is_bad in pairs]
        self.evaluator.process(data_samples=samples, data_batch=data_batch)

    def evaluate(self, size: int) -> dict:
        """Evaluate with and without the bad samples.

        Args:
            size: Number of samples in the dataset.
        """
        rank, ranks = get_dist_info()
        bad = self._bad[: -(-(size - rank) // ranks)]  # without the repeated ones
        self._bad = []
        good = size - sum(all_gather_object(sum(bad)))
        without = []
        for metric in self.evaluator.metrics if 0 < good < size else ():
            if not isinstance(metric, WRITERS) and len(metric.results) >= len(bad):
                twin = copy.copy(metric)
                pairs = zip(metric.results, bad, strict=False)
                twin.results = [result for result, is_bad in pairs if not is_bad]
                without.append(twin)
        metrics = self.evaluator.evaluate(size)
        if good == size:
            return metrics
        MMLogger.get_current_instance().warning(
            f"{size - good} of {size} samples could not be read. They count as wrong; metrics "
            "named good_videos/... are without them"
        )
        metrics = {**metrics, "bad_videos": size - good}
        for metric in without:
            for name, value in metric.evaluate(good).items():
                metrics[f"good_videos/{name}"] = value
        return metrics


def _with_worst_scores(sample: BaseDataElement) -> BaseDataElement:
    """A sample with the lowest score for its true class, or equal scores if it has no label."""
    sample = sample.clone()
    scores, label = sample.pred_score, sample.get("gt_label")
    if isinstance(scores, dict):  # metrics of several tasks rank NaN lowest
        fill = 0.0 if label is None else torch.nan
        sample.pred_score = {name: torch.full_like(s, fill) for name, s in scores.items()}
        return sample
    worst = torch.zeros_like(scores)  # (classes,), or (views, classes)
    if label is not None and label.numel() == 1 and 0 <= int(label) < worst.shape[-1]:
        worst[..., int(label)] = -torch.inf
    sample.pred_score = worst
    return sample
