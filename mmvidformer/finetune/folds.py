"""Runs on folds: each is the test once, of a model that the others train."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from mmvidformer.data.own_videos import VideoLists, find_folds
from mmvidformer.data.splits import order_of_fold
from mmvidformer.engine.checkpointing.resume import LAST
from mmvidformer.engine.tables import print_table
from mmvidformer.errors import UserError
from mmvidformer.finetune.arguments import config_path
from mmvidformer.finetune.outcome import ADVICE, PROBE_ADVICE, compare_share
from mmvidformer.finetune.record import TableRecord
from mmvidformer.finetune.settings import PROBES, Recipe
from mmvidformer.finetune.tally import Tally, mean_interval
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.table import find_task

LEAST = 3  # folds whose mean has an interval
UNRECORDED = ("fold", "folds", "force", "compare", "methods", "prepare", "resume")
Run = Callable[[Namespace, Recipe, VideoLists], dict[str, Any]]


def run_folds(args: Namespace, recipe: Recipe, run: Run) -> None:
    """Train and test on one fold, or on all, and print what they reach together.

    A fold's work dir is ``WORK_DIR/fold_NAME``. ``WORK_DIR/folds.json`` gets the result of each
    fold when it is known. The same command goes on after the folds that it has, and in the midst of
    one. Features of videos are shared.

    Args:
        args: Parsed arguments of ``mmvidformer finetune``; ``fold`` is the only one, if given.
        recipe: The same, as settings.
        run: Trains and tests on lists; returns its result.

    Raises:
        FileExistsError: If the work dir is that of another command, and not ``--force``.
        UserError: If there are no such folds.
    """
    folders = find_folds(args.data)
    if not folders:
        raise UserError(f"{args.data} has no folds; mmvidformer data list --folds 5 makes them")
    if args.fold is not None and args.fold not in folders:
        raise UserError(f"{args.data} has no fold {args.fold}, but {', '.join(folders)}")
    work_dir = config_path(Namespace(**{**vars(args), "force": True}), "finetune").parents[1]
    command = {name: str(value) for name, value in vars(args).items() if name not in UNRECORDED}
    command["lists"] = _digest(folders.values())
    names = [args.fold] if args.fold else [*folders]
    record = TableRecord(work_dir / "folds.json", "fold", command, args.force and args.fold is None)
    if args.force:
        record.rows = [row for row in record.rows if row["fold"] not in names]
    begun = {row["fold"] for row in record.rows}
    done = {row["fold"] for row in record.rows if len(row) > 1}
    for name in names:
        if name not in begun:
            config_path(_fold_arguments(args, folders[name], work_dir), "finetune")  # must be new
    work_dir.mkdir(parents=True, exist_ok=True)
    chosen = {row["method"] for row in record.rows if "method" in row}
    for name in names:
        if name in done:
            print(f"fold {name} is in {record.file} already")
            continue
        print(f"fold {name} ...", flush=True)
        arguments = _fold_arguments(args, folders[name], work_dir)
        if name in begun:
            _go_on(arguments, Path(arguments.work_dir))
        if chosen:  # by --method auto, whose measured times differ: one method for all folds
            (arguments.method,) = chosen
        record.put({"fold": name})  # begun
        fold_recipe = replace(recipe, method=arguments.method)
        result = run(arguments, fold_recipe, read_task_lists(arguments.data, recipe.task))
        chosen = {arguments.method}
        record.put({"fold": name, "method": arguments.method, **result})
    _summarize(record, find_task(recipe.task), len(folders), work_dir, recipe.method)


def _fold_arguments(args: Namespace, folder: Path, work_dir: Path) -> Namespace:
    """Return the arguments of the run on one fold."""
    features = args.features or work_dir / "features"
    values = dict(data=str(folder), work_dir=str(work_dir / folder.name), features=features)
    return Namespace(**{**vars(args), **values})


def _go_on(args: Namespace, work_dir: Path) -> None:
    """Let a fold that an earlier run of the same command began go on, or begin again."""
    is_trained = args.method not in PROBES and (work_dir / LAST).is_file()
    args.resume, args.force = is_trained, not is_trained


def _digest(folders: Sequence[Path]) -> str:
    """Return a digest of the lists of all folds."""
    digest = sha256()
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if file.suffix in (".txt", ".csv"):
                digest.update(f"{folder.name}/{file.name}".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _summarize(record: TableRecord, task: Task, count: int, work_dir: Path, method: str) -> None:
    """Print and write a table of the folds, and what they reach together."""
    rows = [row for row in record.rows if "value" in row]
    rows.sort(key=lambda row: order_of_fold(row["fold"]))
    if not rows:  # no video of a test has a label
        return
    file = work_dir / "folds.csv"
    metric = task.best_metric or "acc/top1"
    if all("tally" in row for row in rows):
        tallies = [Tally.read(row["tally"]) for row in rows]
        names = [
            name for name in rows[0]["baselines"] if all(name in row["baselines"] for row in rows)
        ]
        cells = []
        for row, tally in zip(rows, tallies, strict=True):
            beside = [str(Tally.read(row["baselines"][name])) for name in names]
            cells.append([row["fold"], str(tally), f"{100 * row['chance']:.1f}%", *beside])
        print_table(["fold", "accuracy (95% interval)", "chance", *names], cells, file=file)
        pooled = Tally.pool(tallies)
        chance = sum(row["chance"] * x.count for row, x in zip(rows, tallies, strict=True))
        baselines = {}
        for name in names:
            baselines[name] = Tally.pool(Tally.read(row["baselines"][name]) for row in rows)
        advice = PROBE_ADVICE if method in PROBES else ADVICE
        text = compare_share(pooled, chance / pooled.count, baselines, advice)
        shares = [100 * tally.share for tally in tallies]
        print(f"{len(rows)} of {count} folds, {min(shares):.1f}% to {max(shares):.1f}%: {text}")
        return
    values = [row["value"] for row in rows]
    cells = []
    for row in rows:
        chance = "-" if row["chance"] is None else f"{row['chance']:.3f}"
        cells.append([row["fold"], f"{row['value']:.3f}", chance])
    print_table(["fold", metric, "without looking at the videos"], cells, file=file)
    text = f"{len(rows)} of {count} folds: mean {metric} {np.mean(values):.3f}"
    if len(values) >= LEAST:
        low, high = mean_interval(values)
        text = f"{text} ({low:.3f} to {high:.3f})"
    chances = [row["chance"] for row in rows]
    if None not in chances:
        text = f"{text}; without looking at the videos: {np.mean(chances):.3f}"
    print(text)
