"""The policy for bad videos in a run."""

import csv
import logging
from math import ceil
from pathlib import Path

from mmengine.dist import all_gather_object, get_world_size, is_main_process
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, Runner
from torch.utils.data import DataLoader

from mmvidformer.datasets.decoding.bad_samples import BadSample
from mmvidformer.datasets.decoding.safe_dataset import SafeDataset
from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.evaluation.bad_videos import BadVideoEvaluator
from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class BadVideoHook(Hook):
    """Applies a policy for bad videos to the datasets of a run, and reports the bad ones.

    Wraps the dataset of each dataloader in ``mmvidformer.SafeDataset`` when it is first used, so
    that the config keeps its schema. Dataloaders whose config has a ``SafeDataset`` keep that.
    Metrics of validation and test count bad videos as wrong, and are also given without them
    (``mmvidformer.evaluation.BadVideoEvaluator``).

    After each epoch ranks share what they found. Bad samples are listed in the work dir, in
    ``bad_videos_train.csv``, ``bad_videos_val.csv`` and ``bad_videos_test.csv`` (sample, path,
    reason), and if there are more than ``max_bad_share`` over all ranks, the run ends.

    Args:
        on_bad_video: ``'resample'`` or ``'raise'``, as in ``SafeDataset``.
        max_bad_share: Largest allowed share of bad samples in a dataset.
        time_limit: Seconds for reading one sample; None for no limit.

    Raises:
        ValueError: Before training, if the loop is an ``IterBasedTrainLoop`` whose dataset is not a
            ``SafeDataset`` already.
        RuntimeError: After an epoch, on all ranks, if too many samples are bad.
    """

    # After the checkpoint of an epoch that ends the run.
    priority = "LOWEST"

    def __init__(
        self,
        on_bad_video: str = "resample",
        max_bad_share: float = 0.05,
        time_limit: float | None = 60.0,
    ) -> None:
        self.policy = dict(
            on_bad_video=on_bad_video, max_bad_share=max_bad_share, time_limit=time_limit
        )

    def before_train(self, runner: Runner) -> None:
        """Wrap the training dataset."""
        loop = runner.train_loop
        if hasattr(loop, "dataloader_iterator") and not _guarded(loop.dataloader):
            raise ValueError(
                "BadVideoHook cannot wrap the dataset of an IterBasedTrainLoop, whose dataloader "
                "workers run already. Write train_dataloader.dataset=dict(type="
                "'mmvidformer.SafeDataset', dataset=...), or default_hooks.bad_videos=None"
            )
        self._guard(loop.dataloader)

    def before_train_epoch(self, runner: Runner) -> None:
        """Start to count the bad samples of the epoch."""
        # A loop by iterations is one epoch, in which a rank may see the whole dataset.
        endless = hasattr(runner.train_loop, "dataloader_iterator")
        _start_epoch(runner.train_dataloader, 1 if endless else get_world_size())

    def after_train_epoch(self, runner: Runner) -> None:
        """Share and report the bad samples."""
        _report(runner, "train", runner.train_dataloader)

    def before_val(self, runner: Runner) -> None:
        """Wrap the validation dataset and its evaluator."""
        self._guard_loop(runner.val_loop)

    def after_val_epoch(self, runner: Runner, metrics: dict | None = None) -> None:
        """Share and report the bad samples."""
        _report(runner, "val", runner.val_dataloader)

    def before_test(self, runner: Runner) -> None:
        """Wrap the test dataset and its evaluator."""
        self._guard_loop(runner.test_loop)

    def after_test_epoch(self, runner: Runner, metrics: dict | None = None) -> None:
        """Share and report the bad samples."""
        _report(runner, "test", runner.test_dataloader)

    def _guard(self, loader: DataLoader) -> None:
        if not _guarded(loader):
            # DataLoader refuses to assign a dataset, since its sampler was made for the old one.
            # The new one has the same samples. Persistent workers would keep the old one.
            safe = SafeDataset(loader.dataset, **self.policy)
            vars(loader).update(dataset=safe, _iterator=None)

    def _guard_loop(self, loop: BaseLoop) -> None:
        self._guard(loop.dataloader)
        _start_epoch(loop.dataloader, get_world_size())
        if not isinstance(loop.evaluator, BadVideoEvaluator):
            loop.evaluator = BadVideoEvaluator(loop.evaluator)


def _guarded(loader: DataLoader) -> list[SafeDataset]:
    return [one for one in with_inner(loader.dataset) if isinstance(one, SafeDataset)]


def _start_epoch(loader: DataLoader, ranks: int) -> None:
    for dataset in _guarded(loader):
        # Samples of an inner dataset may be drawn more than once in an epoch.
        outermost = dataset is loader.dataset
        dataset.start_epoch(ceil(len(dataset) / ranks) if outermost else len(dataset))


def _report(runner: Runner, split: str, loader: DataLoader) -> None:
    """List the bad samples of all ranks, and check their share."""
    found: list[BadSample] = []
    for dataset in _guarded(loader):
        for known in all_gather_object(dataset.bad_samples.known()):
            dataset.bad_samples.add(known.values())
        found += dataset.bad_samples.known().values()
    if found and is_main_process():
        path = Path(runner.work_dir) / f"bad_videos_{split}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["sample", "path", "reason"])
            writer.writerows(sorted(found))
        print_log(
            f"{len(found)} of {len(loader.dataset)} samples in {split} are bad so far; see {path}",
            logger="current",
            level=logging.WARNING,
        )
    for dataset in _guarded(loader):
        dataset.check_share(len(dataset.bad_samples.known()), len(dataset))
