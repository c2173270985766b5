"""Trains configs on generated clips, and notes CPU time and accuracy after each epoch."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

from lab.papers.summary import mean_interval
from lab.synthetic.spec import SPLITS
from mmvidformer.engine.launch import build_runner

Epoch = tuple[float, float]  # CPU seconds of all steps so far, and accuracy of validation


class CpuClock(Hook):
    """Measures the CPU time of the training steps, and notes it with the accuracy of each epoch.

    Attributes:
        epochs: An ``Epoch`` for each.
    """

    priority = "LOWEST"

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self._seconds = self._start = 0.0

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._start = time.process_time()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Stop the clock."""
        self._seconds += time.process_time() - self._start

    def after_val_epoch(self, runner: Runner, metrics: Mapping[str, float]) -> None:
        """Note time and accuracy."""
        self.epochs.append((self._seconds, metrics["acc/top1"]))


def use_clips(cfg: Config, data: Path, workers: int) -> None:
    """Read generated clips, in batches of the size of the recipe.

    Args:
        cfg: Config, which is changed.
        data: Folder of the clips.
        workers: Number of processes that read them.
    """
    cfg.train_dataloader.batch_size = cfg.auto_scale_lr.base_batch_size
    for split in SPLITS:
        loader = cfg[f"{split}_dataloader"]
        loader.num_workers = workers
        loader.dataset.ann_file = str(data / f"{split}.txt")
        loader.dataset.data_prefix = dict(video=str(data))
        loader.dataset.metainfo = dict(classes=str(data / "classes.txt"))


def train(cfg: Config, seed: int, root: Path, name: str) -> list[Epoch]:
    """Train, validating every epoch, unless there is a record of it.

    Args:
        cfg: Config, which is changed.
        seed: Random seed.
        root: Folder of the records.
        name: Name of the record.

    Returns:
        An ``Epoch`` for each.
    """
    record = root / f"{name}.json"
    if not record.exists():
        cfg.train_cfg.val_interval = 1
        cfg.default_hooks.checkpoint = None
        cfg.launcher = "none"
        cfg.merge_from_dict(dict(work_dir=str(root / name), experiment_name=name))
        cfg.randomness = dict(seed=seed)
        runner, clock = build_runner(cfg), CpuClock()
        runner.register_hook(clock)
        runner.train()
        record.write_text(json.dumps(clock.epochs))
    return [(seconds, accuracy) for seconds, accuracy in json.loads(record.read_text())]


def time_to(epochs: Sequence[Epoch], accuracy: float) -> float | None:
    """Return the CPU seconds until an accuracy is reached; None: it never is."""
    return next((seconds for seconds, reached in epochs if reached >= accuracy), None)


def seconds_of(times: Sequence[float]) -> str:
    """Format the mean of times, and half of its interval."""
    if len(times) < 2:
        return f"{times[0]:.0f}" if times else "never"
    middle, half = mean_interval(times)
    return f"{middle:.0f} ± {half:.0f}"
