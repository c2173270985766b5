import logging
from collections.abc import Iterable, Mapping, Sequence

import torch
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.logging import print_log
from mmengine.structures import BaseDataElement
from torch import Tensor

from mmvidformer.registry import EVALUATOR


@EVALUATOR.register_module()
class BadVideoEvaluator(Evaluator):
    """MMEngine's evaluator, for which videos that could not be read are wrong.

    ``mmvidformer.SafeDataset`` flags them in test mode. Their scores come from another video: the
    metrics see the lowest score for the true class instead. If there are such videos, they are
    logged, and the results have their number as ``bad_videos``.

    Args:
        metrics: Metrics or their configs.
    """

    def __init__(self, metrics: dict | BaseMetric | Sequence) -> None:
        super().__init__(metrics)
        self.metrics.append(_BadVideos())

    def process(self, data_samples: Iterable, data_batch: object | None = None) -> None:
        """Process a batch. Samples that are no dictionary or data element are left as they are."""
        samples = [s.to_dict() if isinstance(s, BaseDataElement) else s for s in data_samples]
        for i, sample in enumerate(samples):
            if _is_bad(sample) and "pred_score" in sample:
                worst = _worst(sample["pred_score"], sample.get("gt_label"))
                samples[i] = {**sample, "pred_score": worst}
        super().process(samples, data_batch)


class _BadVideos(BaseMetric):
    """The number of bad videos. MMEngine gathers them, and drops samples that fill the end."""

    default_prefix = ""

    def process(self, data_batch: object, data_samples: Sequence) -> None:
        for one in data_samples:
            self.results.append(f"{one['bad_path']}: {one['bad_video']}" if _is_bad(one) else "")

    def compute_metrics(self, results: list[str]) -> dict[str, int]:
        bad = [one for one in results if one]
        if not bad:
            return {}
        what = f"{len(bad)} of {len(results)} samples could not be read and count as wrong"
        print_log("\n".join([f"{what}:", *bad]), logger="current", level=logging.WARNING)
        return {"bad_videos": len(bad)}


def _is_bad(sample: object) -> bool:
    return isinstance(sample, Mapping) and "bad_video" in sample


def _worst(scores: Tensor | dict, label: Tensor | None) -> Tensor | dict:
    """Return the lowest score for the true classes, or equal scores if there is no label."""
    if isinstance(scores, dict):
        if label is None or len(label) == 1:
            return {task: _worst(one, label) for task, one in scores.items()}
        # A label for each task; their metrics rank NaN lowest.
        return {task: torch.full_like(one, torch.nan) for task, one in scores.items()}
    worst = torch.zeros_like(scores)  # (classes,), or (views, classes)
    if label is not None:
        true = label.nonzero()[:, 0] if len(label) > 1 else label  # several of a multi-label video
        worst[..., true[true < worst.shape[-1]]] = -torch.inf
    return worst
