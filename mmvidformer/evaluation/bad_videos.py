"""Metrics where some videos could not be read."""

import copy
import logging
from collections.abc import Sequence

import torch
from mmengine.dist import all_gather_object, get_dist_info
from mmengine.evaluator import DumpResults, Evaluator
from mmengine.logging import print_log
from mmengine.structures import BaseDataElement
from torch import Tensor

from mmvidformer.evaluation.challenge_json import ChallengeJson
from mmvidformer.evaluation.save_scores import SaveScores

# Bad files that the log names; all are in ``bad``.
MOST_LOGGED = 20
# Metrics that write a file have nothing to say twice, and would write over it.
WRITERS = (DumpResults, ChallengeJson, SaveScores)


class BadVideoEvaluator:
    """An evaluator that counts bad videos as wrong, and gives the figures without them too.

    ``mmvidformer.SafeDataset`` flags bad samples in test mode; their scores come from another
    video and are replaced: the right class gets the lowest, so that no metric finds it. If any is
    bad, the results have ``bad_videos``, their number, and each metric a second time under
    ``good_videos/``, over the good ones alone. Metrics whose results are not one a sample are given
    once.

    Samples are taken to be dealt out to processes in turn, the last ones filled up, as MMEngine's
    ``collect_results`` does.

    Args:
        evaluator: The evaluator of a loop.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.bad: list[dict[str, str]] = []  # of the last evaluation, from all processes
        self._faults: list[dict[str, str] | None] = []

    def __getattr__(self, name: str) -> object:
        if name == "evaluator":  # not yet set, while being copied
            raise AttributeError(name)
        return getattr(self.evaluator, name)

    def process(
        self, data_samples: Sequence[BaseDataElement], data_batch: object | None = None
    ) -> None:
        """Hand on a batch, bad samples with the worst scores."""
        handed = []
        for sample in data_samples:
            reason = sample.get("bad_video")
            fault = None if reason is None else {"path": sample.bad_path, "reason": reason}
            self._faults.append(fault)
            handed.append(sample if fault is None else _worst(sample))
        self.evaluator.process(data_samples=handed, data_batch=data_batch)

    def evaluate(self, size: int) -> dict:
        """Evaluate with and without the bad samples; ``size`` as for MMEngine's."""
        rank, world_size = get_dist_info()
        faults = self._faults[: -(-(size - rank) // world_size)]  # what follows fills up
        self._faults = []
        gathered = all_gather_object([fault for fault in faults if fault is not None])
        self.bad = [fault for part in gathered for fault in part]
        if not self.bad:
            return self.evaluator.evaluate(size)
        self._log(size)
        without = []
        for metric in self.evaluator.metrics:
            if not isinstance(metric, WRITERS) and len(metric.results) >= len(faults):
                twin = copy.copy(metric)
                pairs = zip(metric.results, faults, strict=False)
                twin.results = [result for result, fault in pairs if fault is None]
                without.append(twin)
        metrics = {**self.evaluator.evaluate(size), "bad_videos": len(self.bad)}
        good = size - len(self.bad)
        for metric in without if good else ():
            for name, value in metric.evaluate(good).items():
                metrics[f"good_videos/{name}"] = value
        return metrics

    def _log(self, size: int) -> None:
        lines = [f"  {fault['path']}: {fault['reason']}" for fault in self.bad[:MOST_LOGGED]]
        if len(self.bad) > MOST_LOGGED:
            lines.append(f"  and {len(self.bad) - MOST_LOGGED} more")
        print_log(
            f"{len(self.bad)} of {size} samples could not be read. They count as wrong; metrics "
            "under good_videos/ leave them out.\n" + "\n".join(lines),
            logger="current",
            level=logging.WARNING,
        )


def _worst(sample: BaseDataElement) -> BaseDataElement:
    """The sample with scores that no metric finds right, or that say nothing if it has no label."""
    sample = sample.clone()
    scores, label = sample.pred_score, sample.get("gt_label")
    if isinstance(scores, dict):
        # A NaN ranks infinitely low in the metrics of several tasks.
        fill = 0.0 if label is None else torch.nan
        sample.pred_score = {name: torch.full_like(s, fill) for name, s in scores.items()}
    else:
        sample.pred_score = _worst_vector(scores, label)
    return sample


def _worst_vector(scores: Tensor, label: Tensor | None) -> Tensor:
    worst = torch.zeros_like(scores)  # (classes,), or (views, classes)
    if label is None:
        return worst
    if label.numel() == 1 and 0 <= int(label) < worst.shape[-1]:
        worst[..., int(label)] = -torch.inf
    elif label.shape == worst.shape[-1:]:  # one of several labels each
        worst[..., label.to(worst.device) > 0] = -torch.inf
    return worst
