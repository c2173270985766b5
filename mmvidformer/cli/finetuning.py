"""A run of fine-tuning, from the data to what it reached."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any

import numpy as np
from mmengine.config import Config

from mmvidformer.cli import test, train
from mmvidformer.data.list_folders import VideoLists, read_groups
from mmvidformer.engine.checkpointing.resume import LAST, best_checkpoint
from mmvidformer.errors import UserError
from mmvidformer.finetune.baseline import try_baselines
from mmvidformer.finetune.methods import resumed_method
from mmvidformer.finetune.open_data import open_data, open_folds
from mmvidformer.finetune.outcome import (
    PROBE_ADVICE,
    SPLIT_WORDS,
    compare_share,
    compare_to_chance,
    list_figures,
)
from mmvidformer.finetune.prepare import RESULT, config_path, read_config, write_config
from mmvidformer.finetune.settings import AUTO, FinetuneOptions, Recipe
from mmvidformer.finetune.tally import Tally
from mmvidformer.storage.files import read_json, write_file
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import DEFAULT, find_task


def finetune(options: FinetuneOptions, argv: Sequence[str]) -> None:
    """Prepare and train, on all folds if that is asked for; ``argv`` is the command line."""
    command = join(["mmvidformer", "finetune", *argv])
    if options.fold is not None or options.folds is not None:
        from mmvidformer.finetune.folds import run_folds

        run_folds(*open_folds(options), partial(run, split="test", command=command))
        return
    run(*open_data(options), command=command)


def run(
    options: FinetuneOptions, lists: VideoLists, split: str = "val", command: str = ""
) -> dict[str, Any]:
    """Prepare, train and test, and print what the run reached and the commands that follow.

    Args:
        options: All options of the command.
        lists: Lists of the task.
        split: List to test on after training; probes are tested on ``test``.
        command: The command line, which ``figures`` of the result name.

    Returns:
        What ``result.json`` in the folder of the config says, and the ``method``.

    Raises:
        UserError: If a process of several fails.
    """
    if options.recipe.method == AUTO:
        options = replace(options, recipe=_choose(options, lists))
    recipe = options.recipe
    cfg, path = write_config(options, lists)
    if options.prepare:
        return {}
    work_dir, task = path.parents[1], find_task(recipe.task)
    result: dict[str, Any] = {}
    several = ["--procs", str(recipe.procs)] if recipe.procs > 1 else []
    several += options.log_words
    if recipe.is_probe:
        checkpoint = None if recipe.method == "knn" else work_dir / f"{recipe.method}.pth"
        result = _run_probe(options, cfg, lists, checkpoint, command)
    else:
        if not options.resume:
            (work_dir / LAST).unlink(missing_ok=True)  # of an earlier run
        start = ["--resume"] if options.resume else ["--force"]  # as the work dir was checked
        if status := train.main([str(path), *start, *several]):
            raise UserError(f"training ended with status {status}")
        checkpoint = best_checkpoint(work_dir)
    if checkpoint:
        model = join([str(path), str(checkpoint)])
        print(f"done; test:    mmvidformer test {model}")
        print(f"      predict: mmvidformer demo {model} VIDEO")
        print(f"      export:  mmvidformer export {model} --out model.onnx", flush=True)
        result["checkpoint"] = str(checkpoint)
    result_file = path.with_name(RESULT)
    write_file(result_file, (json.dumps(result) + "\n").encode())
    if "tally" not in result and checkpoint and cfg.get(f"{split}_dataloader"):
        word = SPLIT_WORDS[split]
        print(f"the {word} list, by the test pipeline:", flush=True)
        reads_files = task is DEFAULT and not options.shards
        metrics, answers = evaluate(path, str(checkpoint), split, several, reads_files)
        result[word] = metrics
        tally, baselines = None, {}
        if reads_files:
            tally = Tally.of(answers, read_groups(lists.root))
            baselines = _baselines(lists, split)
        value = metrics.get(task.best_metric or "acc/top1")
        said = options.data, command
        result["figures"] = list_figures(task, lists, split, *said, value, tally, baselines)
        if split == "test":
            result |= _describe(task, lists, split, value)
            result |= _tallies(tally, baselines)
        write_file(result_file, (json.dumps(result) + "\n").encode())
        if comparison := compare_to_chance(task, lists, metrics, split, tally, baselines):
            print(comparison)
    return {"method": recipe.method, **result}


def _choose(options: FinetuneOptions, lists: VideoLists) -> Recipe:
    """Choose the method of a run, and say which."""
    path = config_path(options, "finetune")
    if options.resume and path.exists():
        method = resumed_method(path)
    elif options.shards:  # which no probe reads
        method = "full"
    else:
        from mmvidformer.finetune.automatic import choose_method

        cfg = read_config(options)
        weights = options.weights or cfg.get("load_from")
        task = find_task(options.recipe.task)
        method, line = choose_method(cfg, lists, options.recipe, task, weights)
        print(line, flush=True)
    return replace(options.recipe, method=method)


def _run_probe(
    options: FinetuneOptions, cfg: Config, lists: VideoLists, checkpoint: Path | None, command: str
) -> dict[str, Any]:
    """Fit a classifier on features, and return what it reaches on the test list."""
    from mmvidformer.finetune.probes import probe

    recipe = options.recipe
    features = options.features or Path(cfg.work_dir) / "features"
    names = "lr epochs batch procs amp workers balance layer_decay token_keep".split()
    names = names[3:] if recipe.method == "attentive" else names
    unused = [name for name in names if getattr(recipe, name) != getattr(Recipe, name)]
    if unused:
        flags = [f"--{name.replace('_', '-')}" for name in unused]
        print(f"{recipe.method} does not use {', '.join(flags)}")
    answers, chosen, by_neighbors = probe(cfg, recipe, lists, features, checkpoint)
    groups = read_groups(lists.root)
    tally = Tally.of(answers, groups)
    split = "test" if lists.counts["test"] else "val"
    baselines = _baselines(lists, split)
    if by_neighbors:
        baselines["the same features with nearest neighbors"] = Tally.of(by_neighbors, groups)
    value = tally.share if tally.count else None
    task = find_task(recipe.task)
    result = _describe(task, lists, split, value) | _tallies(tally, baselines)
    said = options.data, command
    result["figures"] = list_figures(task, lists, split, *said, value, tally, baselines)
    if options.log and result["figures"]:
        from mmvidformer.sinks.tracking import log_result  # takes a second

        numbers = {f"{split}/{figure['metric']}": figure["value"] for figure in result["figures"]}
        log_result(cfg, options.log, numbers)
    chance = result.get("chance") or 0.0
    comparison = compare_share(tally, chance, baselines, PROBE_ADVICE)
    print(f"{recipe.method}, {chosen}: {comparison}")
    return result


def _describe(
    task: Task, lists: VideoLists, split: str, value: float | None
) -> dict[str, float | None]:
    """Return the result of a test, beside that of an answer without looking at the videos."""
    return {} if value is None else dict(value=value, chance=task.chance(lists, split))


def _tallies(tally: Tally | None, baselines: Mapping[str, Tally]) -> dict[str, Any]:
    """Return the groups of tallies that there are."""
    if tally is None:
        return {}
    groups = {name: counted.groups for name, counted in baselines.items()}
    return {"tally": tally.groups, "baselines": groups}


def _baselines(lists: VideoLists, split: str) -> dict[str, Tally]:
    """Return what needs no network, on a list of one class a video, by name."""
    from mmvidformer.finetune.rows import videos_of

    answers = try_baselines(videos_of(lists, "train"), videos_of(lists, split))
    groups = read_groups(lists.root)
    return {name: Tally.of(of_name, groups) for name, of_name in answers.items()}


def evaluate(
    config: Path, checkpoint: str, split: str, options: Sequence[str], has_scores: bool
) -> tuple[dict[str, float], dict[str, bool]]:
    """Test a checkpoint on a list, as ``mmvidformer test`` does.

    Args:
        config: The config.
        checkpoint: The checkpoint.
        split: ``'val'`` or ``'test'``.
        options: Further options of the command.
        has_scores: Whether a video has one class.

    Returns:
        The metrics, and by video whether it was told right, of those with a label.

    Raises:
        UserError: If one of several processes fails.
    """
    folder = config.with_name(SPLIT_WORDS[split])
    arguments = [str(config), checkpoint, "--split", split, "--work-dir", str(folder), *options]
    scores = folder / "scores.npz"
    if has_scores:
        arguments += ["--dump", str(scores), "--force"]
    if status := test.main(arguments):
        raise UserError(f"the test of the list {split} ended with status {status}")
    newest = max(folder.glob(f"{split}_*.json"), key=lambda file: file.stat().st_mtime)
    metrics = read_json(newest)["metrics"]
    return metrics, _read_answers(scores) if has_scores else {}


def _read_answers(file: Path) -> dict[str, bool]:
    """Read which videos of a file of scores were told right; bad videos were not."""
    with np.load(file) as saved:
        scores, labels = saved["scores"], saved["labels"]
        is_right = (scores.argmax(-1) == labels) & ~saved["bad_videos"]
        named = zip(
            saved["videos"].tolist(), is_right.tolist(), (labels >= 0).tolist(), strict=True
        )
        return {video: right for video, right, has_label in named if has_label}
