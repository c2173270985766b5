"""The policy for bad videos in a run."""

import csv
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.dist import all_gather_object, get_dist_info, is_main_process
from mmengine.evaluator import Evaluator
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement
from torch.utils.data import DataLoader

from mmvidformer.datasets.decoding.safe_dataset import SafeDataset, with_inner
from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class BadVideoHook(Hook):
    """Applies a policy for bad videos to the datasets of a run, and reports the bad ones.

    Wraps the dataset of each dataloader in ``mmvidformer.SafeDataset`` when it is first used, so
    that the config keeps its schema. Dataloaders whose config has a ``SafeDataset`` keep that.
    Metrics count bad videos as wrong (``BadVideoEvaluator``).

    After each epoch ranks share what they found. Bad samples are listed in
    ``bad_videos_{train,val,test}.csv`` in the work dir, and if there are more than
    ``max_bad_share`` over all ranks, the run ends.

    Args:
        on_bad_video: ``'resample'`` or ``'raise'``, as in ``SafeDataset``.
        max_bad_share: Largest allowed share of bad samples in a dataset.
        time_limit: Seconds for reading one sample; None for no limit.
        helper: Whether to read in helper processes, as in ``SafeDataset``; None for only if needed.

    Raises:
        TooManyBadVideos: After an epoch, on all ranks, if too many samples are bad.
    """

    # After the checkpoint of an epoch that ends the run.
    priority = "LOWEST"

    def __init__(
        self,
        on_bad_video: str = "resample",
        max_bad_share: float = 0.05,
        time_limit: float | None = 60.0,
        helper: bool | None = None,
    ) -> None:
        self.policy = on_bad_video, max_bad_share, time_limit, helper

    def _before_epoch(self, runner: Runner, mode: str = "train") -> None:
        """Wrap the dataset and the evaluator if they are not."""
        loop = getattr(runner, f"{mode}_loop")
        loader = loop.dataloader
        if not _guarded(loader):
            # DataLoader refuses to assign a dataset, since its sampler was made for the old one.
            # The new one has the same samples. Persistent workers would keep the old one.
            safe = SafeDataset(loader.dataset, *self.policy)
            vars(loader).update(dataset=safe, _iterator=None)
            if hasattr(loop, "dataloader_iterator"):  # IterBasedTrainLoop has started it
                loop.dataloader_iterator = type(loop.dataloader_iterator)(loader)
        if hasattr(loop, "evaluator") and not isinstance(loop.evaluator, BadVideoEvaluator):
            loop.evaluator = BadVideoEvaluator(loop.evaluator)
        for dataset in _guarded(loader):
            dataset.is_hooked = True

    def _after_epoch(self, runner: Runner, mode: str = "train") -> None:
        """Share what ranks found, list it, and check its share."""
        loader = getattr(runner, f"{mode}_loop").dataloader
        found: list[tuple[int, str, str]] = []
        for dataset in _guarded(loader):
            for known in all_gather_object(dataset.bad_samples.known()):
                for index, fault in known.items():
                    dataset.bad_samples.add(index, *fault)
            found += [(index, *fault) for index, fault in dataset.bad_samples.known().items()]
        if found and is_main_process():
            path = Path(runner.work_dir) / f"bad_videos_{mode}.csv"
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["sample", "path", "reason"])
                writer.writerows(sorted(found))
            message = f"{len(found)} of {len(loader.dataset)} samples in {mode} are bad so far"
            runner.logger.warning(f"{message}; see {path}")
        for dataset in _guarded(loader):
            dataset.check_share()


def _guarded(loader: DataLoader) -> list[SafeDataset]:
    return [one for one in with_inner(loader.dataset) if isinstance(one, SafeDataset)]


class BadVideoEvaluator:
    """An evaluator that counts bad videos as wrong.

    ``mmvidformer.SafeDataset`` flags bad samples in test mode. Their scores come from another video
    and are replaced: the true class gets the lowest score. If there are bad samples, the results
    have their number as ``bad_videos``.

    Ranks must have every n-th sample, the last ones repeated ones, as with MMEngine's
    ``DefaultSampler`` and ``collect_results``.

    Args:
        evaluator: Evaluator of a loop.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._bad: list[bool] = []  # whether each sample is bad, so far

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
