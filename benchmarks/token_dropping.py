"""Training on half of the tokens: CPU time to the same accuracy.

python -m benchmarks.token_dropping [--tasks plain cues] [--seeds 3] [--root FOLDER]

Two small models learn generated clips from nothing: ViViT with factorized self-attention the
direction of an object (preset plain), and TimeSformer which objects follow each other (preset
cues). Each trains on all tokens, and on half of them with all in the last fifth of the steps, as
long and twice as long. Every epoch is validated, with all tokens. Training takes one thread; its
time is that of the steps, without reading and validation.

"to reach" is the time until the accuracy first is that of the last epoch on all tokens (mean of the
seeds), less 2 points. Numbers are means over the seeds and half of their 95% interval (Student's
t). A run whose record is in FOLDER is not repeated.
"""

import json
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

from benchmarks.models import machine
from benchmarks.versions import versions
from mmvidformer.config import load_config
from mmvidformer.engine.launch import build_runner
from mmvidformer.papers.summary import interval, mean_interval
from mmvidformer.synthetic import PRESETS
from mmvidformer.synthetic.spec import SPLITS

TASKS = {"plain": "vivit_fsa_motion", "cues": "timesformer_motion"}  # config of each preset
LESS = 0.02  # than the accuracy on all tokens counts as the same


class Way(NamedTuple):
    """How a model trains: the share of the tokens, and how many times as many epochs."""

    token_keep: float
    times: int

    def __str__(self) -> str:
        long = "" if self.times == 1 else f", {self.times} x the epochs"
        return f"{self.token_keep:.0%}{long}"


WAYS = (Way(1.0, 1), Way(0.5, 1), Way(0.5, 2))
Epoch = tuple[float, float]  # CPU seconds of all steps so far, and accuracy


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


def make_config(task: str, way: Way, data: Path, workers: int) -> Config:
    """Return the config of a run.

    Args:
        task: Key of ``TASKS``.
        way: How it trains.
        data: Folder of the generated clips.
        workers: Number of processes that read them.
    """
    cfg = load_config(TASKS[task])
    cfg.model.backbone.token_keep = way.token_keep
    if way.token_keep < 1:
        cfg.custom_hooks = [dict(type="mmvidformer.AllTokensHook")]
    cfg.train_cfg.update(max_epochs=way.times * cfg.train_cfg.max_epochs, val_interval=1)
    for scheduler in cfg.param_scheduler:
        for name in ("begin", "end", "T_max"):
            if name in scheduler:
                scheduler[name] *= way.times
    cfg.train_dataloader.batch_size = cfg.auto_scale_lr.base_batch_size
    for split in SPLITS:
        loader = cfg[f"{split}_dataloader"]
        loader.num_workers = workers
        loader.dataset.ann_file = str(data / f"{split}.txt")
        loader.dataset.data_prefix = dict(video=str(data))
        loader.dataset.metainfo = dict(classes=str(data / "classes.txt"))
    cfg.default_hooks.checkpoint = None
    cfg.launcher = "none"
    return cfg


def train(task: str, way: Way, seed: int, root: Path, workers: int) -> list[Epoch]:
    """Train, unless there is a record of it, and return the epochs."""
    name = f"{task}_{way.token_keep:g}_{way.times}_{seed}"
    record = root / f"{name}.json"
    if not record.exists():
        cfg = make_config(task, way, root / task, workers)
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


def rows_of(runs: Mapping[Way, Sequence[Sequence[Epoch]]]) -> list[str]:
    """Return the rows of a task, of the runs of all seeds by way."""
    whole = runs[WAYS[0]]
    target = mean(epochs[-1][1] for epochs in whole) - LESS
    rows = []
    for way, of_seeds in runs.items():
        reached = [time_to(epochs, target) for epochs in of_seeds]
        times = [seconds for seconds in reached if seconds is not None]
        cells = [str(way), interval([epochs[-1][1] for epochs in of_seeds])]
        cells += [seconds_of([epochs[-1][0] for epochs in of_seeds]), f"{target:.1%}"]
        cells += [seconds_of(times), f"{len(times)} of {len(reached)}"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def seconds_of(times: Sequence[float]) -> str:
    """Format the mean of times, and half of its interval."""
    if len(times) < 2:
        return f"{times[0]:.0f}" if times else "never"
    middle, half = mean_interval(times)
    return f"{middle:.0f} ± {half:.0f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the clips, train, and print a table for each task."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path("work_dirs/token_dropping"))
    parser.add_argument("--workers", type=int, default=1, help="processes that read clips")
    parser.add_argument("--clips", type=int, help="of each split (default: those of the preset)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    tables = []
    for task in args.tasks:
        spec = PRESETS[task]
        if args.clips:
            spec = replace(spec, **dict.fromkeys(SPLITS, args.clips))
        spec.write(args.root / task)
        runs: dict[Way, list[list[Epoch]]] = {way: [] for way in WAYS}
        for seed in range(args.seeds):
            for way in WAYS:  # in turn, as the machine may change
                runs[way].append(train(task, way, seed, args.root, args.workers))
        tables.append([f"\n{TASKS[task]}, {task}", *rows_of(runs)])
    print(f"\n{machine('cpu', 1)}; {versions()}")
    print("\n| tokens | accuracy at the end, % | CPU s | accuracy | CPU s to reach | runs |")
    print("|---|---|---|---|---|---|")
    for table in tables:
        print("\n".join(table))


if __name__ == "__main__":
    main()
