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

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import torch
from mmengine.config import Config

from benchmarks.models import machine
from benchmarks.training_time import Epoch, seconds_of, time_to, train, use_clips
from benchmarks.versions import versions
from lab.papers.summary import interval
from lab.synthetic import PRESETS
from lab.synthetic.spec import SPLITS
from mmvidformer.config import load_config

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
    cfg.train_cfg.max_epochs *= way.times
    for scheduler in cfg.param_scheduler:
        for name in ("begin", "end", "T_max"):
            if name in scheduler:
                scheduler[name] *= way.times
    use_clips(cfg, data, workers)
    return cfg


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
                cfg = make_config(task, way, args.root / task, args.workers)
                name = f"{task}_{way.token_keep:g}_{way.times}_{seed}"
                runs[way].append(train(cfg, seed, args.root, name))
        tables.append([f"\n{TASKS[task]}, {task}", *rows_of(runs)])
    print(f"\n{machine('cpu', 1)}; {versions()}")
    print("\n| tokens | accuracy at the end, % | CPU s | accuracy | CPU s to reach | runs |")
    print("|---|---|---|---|---|---|")
    for table in tables:
        print("\n".join(table))


if __name__ == "__main__":
    main()
