"""Causal attention and a gated recurrence against HORST: accuracy, and CPU time of training.

python -m benchmarks.causal_accuracy [--tasks early recall] [--seeds 3] [--root FOLDER]

Small models learn generated clips from nothing, by their shipped configs: three motions one after
another (preset phases), and the shape of the first of twelve objects (preset recall). Each config
trains as long as it says, in one thread, and validates every epoch. CPU time is that of the steps,
without reading and validation.

"in HORST's time" is the accuracy of the last epoch that ends within the CPU time that HORST took in
all, with the same seed. Numbers are means over the seeds and half of their 95% interval (Student's
t). A run whose record is in FOLDER is not repeated.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.models import machine
from benchmarks.training_time import Epoch, seconds_of, train, use_clips
from benchmarks.versions import versions
from lab.papers.summary import interval
from lab.synthetic import PRESETS
from mmvidformer.config import load_config

TASKS = {  # preset and configs of each, HORST's first
    "early": (
        "phases",
        ("horst_early_motion", "causal_transformer_early_motion", "causal_recurrence_early_motion"),
    ),
    "recall": (
        "recall",
        (
            "horst_recall_motion",
            "causal_transformer_recall_motion",
            "causal_recurrence_recall_motion",
        ),
    ),
}


def accuracy_within(epochs: Sequence[Epoch], seconds: float) -> float:
    """Return the accuracy of the last epoch that ends within CPU seconds; 0 if none does."""
    within = [accuracy for spent, accuracy in epochs if spent <= seconds]
    return within[-1] if within else 0.0


def rows_of(runs: Mapping[str, Sequence[Sequence[Epoch]]]) -> list[str]:
    """Return the rows of a task, of the runs of all seeds by config, HORST's first."""
    horst = next(iter(runs.values()))
    limits = [epochs[-1][0] for epochs in horst]
    rows = []
    for config, of_seeds in runs.items():
        within = [accuracy_within(*run) for run in zip(of_seeds, limits, strict=True)]
        cells = [config, interval([epochs[-1][1] for epochs in of_seeds])]
        cells += [seconds_of([epochs[-1][0] for epochs in of_seeds]), interval(within)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the clips, train, and print a table."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path("work_dirs/causal_accuracy"))
    parser.add_argument("--workers", type=int, default=1, help="processes that read clips")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    rows = []
    for task in args.tasks:
        preset, configs = TASKS[task]
        PRESETS[preset].write(args.root / task)
        runs: dict[str, list[list[Epoch]]] = {config: [] for config in configs}
        for seed in range(args.seeds):
            for config in configs:  # in turn, as the machine may change
                cfg = load_config(config)
                use_clips(cfg, args.root / task, args.workers)
                runs[config].append(train(cfg, seed, args.root, f"{config}_{seed}"))
        rows += rows_of(runs)
    print(f"\n{machine('cpu', 1)}; {versions()}")
    print("\n| config | accuracy at the end, % | CPU s | in HORST's time, % |")
    print("|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
