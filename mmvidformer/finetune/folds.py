"""Runs on folds: each is the test once, of a model that the others train."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import order_of_fold
from mmvidformer.engine.checkpointing.resume import LAST
from mmvidformer.engine.tables import print_table
from mmvidformer.finetune.outcome import ADVICE, PROBE_ADVICE, compare_share
from mmvidformer.finetune.prepare import config_path
from mmvidformer.finetune.record import FoldsRecord
from mmvidformer.finetune.settings import FinetuneOptions
from mmvidformer.finetune.tally import Tally, mean_interval
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.table import find_task

RECORD = "folds.json"
LEAST = 3  # folds whose mean has an interval
UNRECORDED = ("fold", "folds", "force", "log", "prepare", "resume")
Run = Callable[[FinetuneOptions, VideoLists], dict[str, Any]]


def run_folds(options: FinetuneOptions, folders: Mapping[str, Path], run: Run) -> None:
    """Train and test on one fold, or on all, and print what they reach together.

    A fold's work dir is ``WORK_DIR/fold_NAME``. ``RECORD`` in it gets the result of each
    fold when it is known. The same command goes on after the folds that it has, and in the midst of
    one. Features of videos are shared.

    Args:
        options: Options of ``mmvidformer finetune``; ``fold`` is the only one, if given.
        folders: The folder of the lists of each fold.
        run: Trains and tests on lists; returns its result.

    Raises:
        FileExistsError: If the work dir is that of another command, and not ``--force``.
    """
    work_dir = config_path(replace(options, force=True), "finetune").parents[1]
    command = {**options.describe(*UNRECORDED), "lists": _digest(folders.values())}
    names = [options.fold] if options.fold else [*folders]
    starts_again = options.force and options.fold is None
    record = FoldsRecord(work_dir / RECORD, command, starts_again)
    if options.force:
        record.rows = [row for row in record.rows if row["fold"] not in names]
    begun = {row["fold"] for row in record.rows}
    done = {row["fold"] for row in record.rows if len(row) > 1}
    for name in names:
        if name not in begun:
            of_fold = _options_of_fold(options, folders[name], work_dir)
            config_path(of_fold, "finetune")  # must be new
    work_dir.mkdir(parents=True, exist_ok=True)
    chosen = {row["method"] for row in record.rows if "method" in row}
    for name in names:
        if name in done:
            print(f"fold {name} is in {record.file} already")
            continue
        print(f"fold {name} ...", flush=True)
        of_fold = _options_of_fold(options, folders[name], work_dir)
        if name in begun:  # by an earlier run of the same command: it goes on, or begins again
            is_trained = of_fold.trains and (work_dir / folders[name].name / LAST).is_file()
            of_fold = replace(of_fold, resume=is_trained, force=not is_trained)
        if chosen:  # by --method auto, whose measured times differ: one method for all folds
            of_fold = replace(of_fold, recipe=replace(options.recipe, method=min(chosen)))
        record.put({"fold": name})  # begun
        result = run(of_fold, read_task_lists(of_fold.data, options.recipe.task))
        chosen = {result["method"]}
        record.put({"fold": name, **result})
    _summarize(record, find_task(options.recipe.task), len(folders), work_dir, options.trains)


def _options_of_fold(options: FinetuneOptions, folder: Path, work_dir: Path) -> FinetuneOptions:
    """Return the options of the run on one fold."""
    return replace(
        options,
        data=str(folder),
        work_dir=str(work_dir / folder.name),
        features=options.features or work_dir / "features",
    )


def _digest(folders: Iterable[Path]) -> str:
    """Return a digest of the lists of all folds."""
    digest = sha256()
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if file.suffix in (".txt", ".csv"):
                digest.update(f"{folder.name}/{file.name}".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _summarize(record: FoldsRecord, task: Task, count: int, work_dir: Path, trains: bool) -> None:
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
        advice = ADVICE if trains else PROBE_ADVICE
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
