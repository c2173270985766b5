"""Metrics when some videos could not be read."""

from collections.abc import Sequence

import torch
from mmengine.dist import all_gather_object, get_dist_info
from mmengine.evaluator import Evaluator
from mmengine.logging import MMLogger
from mmengine.structures import BaseDataElement


class BadVideoEvaluator:
    """An evaluator that counts bad videos as wrong.

    ``mmvidformer.SafeDataset`` flags bad samples in test mode. Their scores come from another video
    and are replaced: the true class gets the lowest score. If there are bad samples, the results
    have their number as ``bad_videos``.

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
        """Evaluate, and count the bad samples.

        Args:
            size: Number of samples in the dataset.
        """
        rank, ranks = get_dist_info()
        own = self._bad[: -(-(size - rank) // ranks)]  # without the repeated ones
        self._bad = []
        bad = sum(all_gather_object(sum(own)))
        metrics = self.evaluator.evaluate(size)
        if not bad:
            return metrics
        what = f"{bad} of {size} samples could not be read and count as wrong"
        MMLogger.get_current_instance().warning(what)
        return {**metrics, "bad_videos": bad}


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
