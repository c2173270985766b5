from mmvidformer.registry import EVALUATOR  # isort: skip  (repairs MMAction2 first)

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from mmaction.evaluation import AccMetric, AVAMetric, ConfusionMatrix
from mmengine.evaluator import BaseMetric, DumpResults, Evaluator
from mmengine.logging import print_log
from mmengine.structures import BaseDataElement

from mmvidformer.errors import UserError
from mmvidformer.tasks.action_detection import ActionDetection
from mmvidformer.tasks.classification import Classification
from mmvidformer.tasks.score_files import SaveScores


@EVALUATOR.register_module()
class BadVideoEvaluator(Evaluator):
    """MMEngine's evaluator, in which videos that could not be read have the worst answer.

    ``mmvidformer.SafeDataset`` flags them in test mode. Their predictions, and all that is not
    annotated, come from another video and are dropped. Each metric sees what its own method
    ``worst(sample)`` makes of such a sample; those of MMAction2 are in ``WORST``. Files of
    predictions have what the first metric sees, or else that of classes. If there are such videos,
    they are logged, and the results have their number as ``bad_videos``.

    Args:
        metrics: Metrics or their configs.

    Raises:
        UserError: From ``process``, if a metric does not know the worst answer.
    """

    def __init__(self, metrics: dict | BaseMetric | Sequence) -> None:
        super().__init__(metrics)
        answering = [m for m in self.metrics if not isinstance(m, (*FILES, ConfusionMatrix))]
        self._first = answering[0] if answering else None
        is_left_out = any(getattr(m, "leaves_bad_videos_out", False) for m in answering)
        self.metrics.append(_BadVideos("are left out" if is_left_out else "count as wrong"))

    def process(self, data_samples: Iterable, data_batch: object | None = None) -> None:
        """Process a batch. Samples that are no dictionary or data element are left as they are."""
        samples = [s.to_dict() if isinstance(s, BaseDataElement) else s for s in data_samples]
        samples = [_without_filler(s) if _is_bad(s) else s for s in samples]
        for metric in self.metrics:
            answers = [self._worst(metric, s) if _is_bad(s) else s for s in samples]
            metric.process(data_batch, answers)

    def _worst(self, metric: BaseMetric, sample: dict) -> dict:
        """Return a bad sample with the worst answer for a metric."""
        if isinstance(metric, FILES):
            if self._first is None:
                return Classification.worst(sample)
            metric = self._first
        if hasattr(metric, "worst"):
            return metric.worst(sample)
        for known, worst in WORST.items():
            if isinstance(metric, known):
                return worst(sample)
        what = f"{type(metric).__name__} has no method worst(sample), the answer of a bad video"
        raise UserError(f"{sample['bad_path']}: {sample['bad_video']}; {what}")


def _no_class(sample: dict) -> dict:
    """Return a sample that is in no row and column of a confusion matrix."""
    nothing = torch.zeros(0, dtype=torch.long)
    return {**sample, "pred_score": None, "pred_label": nothing, "gt_label": nothing}


FILES = (DumpResults, SaveScores)
# Worst answers for metrics of others.
WORST: dict[type[BaseMetric], Callable[[dict], dict]] = {
    AccMetric: Classification.worst,
    ConfusionMatrix: _no_class,
    AVAMetric: ActionDetection.worst,
}


class _BadVideos(BaseMetric):
    """The number of bad videos. MMEngine gathers them, and drops samples that fill the end."""

    default_prefix = ""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def worst(self, sample: dict) -> dict:
        """Return the sample, whose flag is all that is used."""
        return sample

    def process(self, data_batch: object, data_samples: Sequence) -> None:
        for sample in data_samples:
            reason = f"{sample['bad_path']}: {sample['bad_video']}" if _is_bad(sample) else ""
            self.results.append(reason)

    def compute_metrics(self, results: list[str]) -> dict[str, int]:
        bad = [reason for reason in results if reason]
        if not bad:
            return {}
        title = f"{len(bad)} of {len(results)} samples could not be read and {self.what}:"
        print_log("\n".join([title, *bad]), logger="current", level=logging.WARNING)
        return {"bad_videos": len(bad)}


def _is_bad(sample: object) -> bool:
    return isinstance(sample, Mapping) and "bad_video" in sample


def _without_filler(sample: dict) -> dict:
    """Return what is known of a bad sample, and the predictions, which tell only their form."""
    if "annotation_keys" not in sample:  # of a dumped file
        return sample
    kept = {"gt_label", "video_path", "bad_video", "bad_path", *sample["annotation_keys"]}
    return {k: v for k, v in sample.items() if k in kept or k.startswith("pred_")}
