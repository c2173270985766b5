"""The policy for bad videos in a run: which data sets heed it, what is told of them."""

import csv
import logging
from pathlib import Path

from mmengine.config import Config
from mmengine.dist import all_gather_object, is_main_process
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from mmvidformer.datasets.decoding.guard import SafeDataset
from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.evaluation.bad_videos import BadVideoEvaluator
from mmvidformer.registry import HOOKS

WRAPPER, HOOK = "mmvidformer.SafeDataset", "mmvidformer.BadVideoHook"


def use_bad_video_policy(cfg: Config) -> None:
    """Lay ``cfg.bad_videos`` on the data sets of all loaders of ``cfg``, in place.

    ``bad_videos`` are arguments of ``mmvidformer.SafeDataset``, or None for none. Data sets stay
    flat in the config file, so that settings such as ``train_dataloader.dataset.ann_file`` keep
    their names. One that is a ``SafeDataset`` already keeps its own policy.
    """
    policy = cfg.get("bad_videos")
    if policy is None:
        return
    for split in ("train", "val", "test"):
        loader = cfg.get(f"{split}_dataloader")
        if loader and loader["dataset"]["type"] not in (WRAPPER, SafeDataset):
            loader["dataset"] = dict(type=WRAPPER, dataset=loader["dataset"], **policy)
    hooks = list(cfg.get("custom_hooks") or [])
    if all(hook["type"] not in (HOOK, BadVideoHook) for hook in hooks):
        cfg.custom_hooks = [*hooks, dict(type=HOOK)]


@HOOKS.register_module()
class BadVideoHook(Hook):
    """Tells of the bad videos that the ``mmvidformer.SafeDataset`` of a run found.

    In validation and testing, metrics count them as wrong and are given without them as well
    (``BadVideoEvaluator``). After each epoch of training the log has their number
    over all workers and processes. All are listed in ``bad_videos_train.csv``, ``..._val.csv`` and
    ``..._test.csv`` in the work dir (sample, path, reason).
    """

    def before_val(self, runner: Runner) -> None:
        """Make the metrics of validation heed the flags."""
        _heed(runner.val_loop)

    def before_test(self, runner: Runner) -> None:
        """Make the metrics of testing heed the flags."""
        _heed(runner.test_loop)

    def after_train_epoch(self, runner: Runner) -> None:
        """Tell of the bad videos so far (loops by iterations are one epoch)."""
        self._report(runner, "train", runner.train_dataloader.dataset)

    def after_val_epoch(self, runner: Runner, metrics: dict | None = None) -> None:
        """List the bad videos of validation."""
        self._report(runner, "val", runner.val_dataloader.dataset)

    def after_test_epoch(self, runner: Runner, metrics: dict | None = None) -> None:
        """List the bad videos of testing."""
        self._report(runner, "test", runner.test_dataloader.dataset)

    def _report(self, runner: Runner, split: str, dataset: object) -> None:
        own = [sample for safe in _safe(dataset) for sample in safe.ledger.samples()]
        bad = {sample for part in all_gather_object(own) for sample in part}
        if not bad or not is_main_process():
            return
        path = Path(runner.work_dir) / f"bad_videos_{split}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["sample", "path", "reason"])
            writer.writerows(sorted((s.item, s.path, s.reason) for s in bad))
        items, files = {s.item for s in bad}, {s.path for s in bad}
        print_log(
            f"bad videos in {split} so far: {len(items)} of {len(dataset)} samples, in "
            f"{len(files)} files, listed in {path}",
            logger="current",
            level=logging.WARNING,
        )


def _heed(loop: object) -> None:
    guarded = _safe(loop.dataloader.dataset)
    for dataset in guarded:
        dataset.flags_are_heeded = True
    if guarded and not isinstance(loop.evaluator, BadVideoEvaluator):
        loop.evaluator = BadVideoEvaluator(loop.evaluator)


def _safe(dataset: object) -> list[SafeDataset]:
    return [one for one in with_inner(dataset) if isinstance(one, SafeDataset)]
