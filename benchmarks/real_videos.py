"""What methods of fine-tuning and other models reach on real labelled videos: one table.

    python -m benchmarks.real_videos LISTS [LISTS ...] --out FOLDER [--methods NAME ...]
        [--rivals NAME ...] [--seeds N ...] [--config FILE] [--cfg-options KEY=VALUE ...]

LISTS are those of ``mmvidformer data list``, with or without ``--folds`` (``benchmarks.real_lists``
makes the csv file of some data sets). Methods are those of ``mmvidformer finetune``, rivals those
of ``benchmarks.real_rivals``, trained from random weights. Features are computed once. Nothing is
chosen on a test. FOLDER/real_videos.csv is the table, FOLDER/LISTS_losses.png has the losses of
rivals; the same command goes on after what it has.
"""

import csv
import json
import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.plots import draw_losses
from benchmarks.real_rivals import RIVALS, evaluate_rival
from mmvidformer.__main__ import main as run_command
from mmvidformer.data.list_folders import find_folds
from mmvidformer.engine.tables import print_table
from mmvidformer.finetune.tally import Tally
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.names import PROBES

CONFIG = str(Path(__file__).with_name("real_videos_config.py"))
COLUMNS = ["set", "method", "seed", "top-1 (95% interval)", "minutes"]
Row = dict[str, Any]


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("lists", type=Path, nargs="+", metavar="LISTS")
    parser.add_argument("--out", type=Path, required=True, help="folder of features and results")
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--methods", nargs="*", default=["temporal", "linear", "knn"])
    parser.add_argument("--rivals", nargs="*", default=[], choices=[*RIVALS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--rival-minutes", type=float, default=8.0, help="of a processor, for each training"
    )
    parser.add_argument("--cfg-options", nargs="+", default=[], help="overrides of the config")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the table does not have yet, print it and write it."""
    args = parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "real_videos.csv"
    rows = _read_table(file)
    done = {tuple(row[:3]) for row in rows}
    for lists in args.lists:
        name = lists.resolve().name
        for method in [*args.methods, *args.rivals]:
            for seed in args.seeds:
                if (name, method, str(seed)) in done:
                    continue
                start = time.perf_counter()
                tally, baselines = run_method(args, lists, method, seed)
                minutes = f"{(time.perf_counter() - start) / 60:.1f}"
                for baseline, of_baseline in baselines.items():
                    if (name, baseline, "-") not in done:
                        rows.append([name, baseline, "-", str(of_baseline), "-"])
                        done.add((name, baseline, "-"))
                rows.append([name, method, str(seed), str(tally), minutes])
                print_table(COLUMNS, rows, file=file)
        _draw_losses(args, lists)
    return 0


def run_method(
    args: Namespace, lists: Path, method: str, seed: int
) -> tuple[Tally, dict[str, Tally]]:
    """Return right answers of a method on all folds, and those of baselines that are known."""
    work_dir = args.out / "runs" / f"{lists.resolve().name}_{method}_{seed}"
    folds = find_folds(lists)
    if method in RIVALS:
        seconds = 60 * args.rival_minutes
        tests = []
        for folder in [*folds.values()] or [lists]:
            record = work_dir / f"{folder.name}.json"
            tests.append(evaluate_rival(method, folder, seed, seconds, record))
        return Tally.pool(tests), {}
    options = ["--config", args.config, "--data", str(lists), "--method", method]
    options += ["--work-dir", str(work_dir), "--seed", str(seed)]
    if folds:
        options.append("--folds")
    else:
        options.append("--force")
    if method in PROBES:
        options += ["--features", str((args.out / "features").absolute())]
    if args.cfg_options:
        options += ["--cfg-options", *args.cfg_options]
    if status := run_command(["finetune", *options]):
        raise SystemExit(status)
    if folds:
        results = json.loads((work_dir / "folds.json").read_text())["rows"]
    else:
        results = [json.loads((work_dir / "finetune" / "result.json").read_text())]
    return Tally.pool(Tally.read(row["tally"]) for row in results), _pool_baselines(results)


def _draw_losses(args: Namespace, lists: Path) -> None:
    """Draw the losses of the rivals of lists, as OUT/LISTS_losses.png."""
    name = lists.resolve().name
    losses = {}
    for rival in args.rivals:
        records = sorted((args.out / "runs").glob(f"{name}_{rival}_*/*.json"))
        losses[rival] = [json.loads(record.read_text("utf-8"))["losses"] for record in records]
    if losses:
        folder, *_ = [*find_folds(lists).values()] or [lists]
        classes = read_task_lists(str(folder), "classes").classes
        draw_losses(losses, math.log(len(classes))).savefig(args.out / f"{name}_losses.png")


def _pool_baselines(results: Sequence[Row]) -> dict[str, Tally]:
    """Return what needs no network, on all folds together, by name."""
    names = set.intersection(*({*row.get("baselines", {})} for row in results))
    pooled = {}
    for name in sorted(names):
        pooled[name] = Tally.pool(Tally.read(row["baselines"][name]) for row in results)
    return pooled


def _read_table(file: Path) -> list[list[str]]:
    """Return the rows of an earlier run."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as table:
        return list(csv.reader(table))[1:]


if __name__ == "__main__":
    raise SystemExit(main())
