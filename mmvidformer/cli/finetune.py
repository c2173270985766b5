"""Fine-tune on videos of your own: mmvidformer finetune --config NAME --data FOLDER.

FOLDER has the lists that mmvidformer data list writes. The work dir gets the complete
config (finetune/config.py), with which all other tools work.
"""

import json
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from pathlib import Path
from shlex import join

import torch

from mmvidformer.cli import test, train
from mmvidformer.data.own_videos import VideoLists
from mmvidformer.engine.checkpointing.resume import LAST, best_checkpoint
from mmvidformer.engine.options import read_options
from mmvidformer.errors import UserError
from mmvidformer.finetune.arguments import add_run_arguments, prepare
from mmvidformer.finetune.baseline import Baseline, try_baseline
from mmvidformer.finetune.outcome import PROBE_ADVICE, compare_share, compare_to_chance
from mmvidformer.finetune.settings import PROBES, Recipe
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.table import find_task


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    add_run_arguments(parser, "folder of the lists", Recipe)
    parser.add_argument(
        "--weights",
        help="checkpoint or address to start from, of this project or any that "
        "mmvidformer convert reads (default: as in the config)",
        metavar="FILE",
    )
    parser.add_argument(
        "--compare",
        action=BooleanOptionalAction,
        help="run several methods, or all that fit, and print what they reach and cost",
    )
    parser.add_argument(
        "--features",
        type=Path,
        help="folder of features (default: WORK_DIR/features)",
        metavar="FOLDER",
    )
    parser.add_argument(
        "--shards", metavar="FOLDER", help="folder or address with the shards of the lists"
    )
    parser.add_argument("--prepare", action="store_true", help="write the config, do not train")
    args = parser.parse_args(argv)
    if args.method and len(args.method) > 1 and not args.compare:
        parser.error("several methods need --compare")
    methods = args.method or ["full"]
    if args.resume and (args.compare or methods[0] in PROBES):
        parser.error(f"--resume goes on with one run, not with --compare or {', '.join(PROBES)}")
    if args.shards and (args.compare or {*methods} & {*PROBES}):
        parser.error(f"--compare, {', '.join(PROBES)} read the files of the lists, not --shards")
    if args.compare is None:  # which --compare passes on is another matter
        if "lora" not in methods and (args.lora_rank or args.lora_alpha or args.lora_layers):
            parser.error("--lora-rank, --lora-alpha and --lora-layers need --method lora")
        if args.features and methods[0] not in PROBES:
            parser.error(f"--features is for {', '.join(PROBES)}")
    args.methods, args.method = args.method, methods[0]
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare and train, print the commands that follow, and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    args = parse_args(argv)
    recipe = read_options(Recipe, args)
    lists = read_task_lists(args.data, recipe.task)
    if args.compare:
        from mmvidformer.finetune.compare import compare_methods

        compare_methods(args, argv, recipe, lists)
        return 0
    cfg, path = prepare(args, recipe, lists)
    if args.prepare:
        return 0
    work_dir, result, task = path.parents[1], {}, find_task(recipe.task)
    if recipe.method in PROBES and task.has_probes:
        from mmvidformer.finetune.probes import probe

        checkpoint = None if recipe.method == "knn" else work_dir / f"{recipe.method}.pth"
        features = args.features or work_dir / "features"
        options = "lr epochs batch procs amp workers balance layer_decay token_keep".split()
        options = options[3:] if recipe.method == "attentive" else options
        if unused := [f"--{name.replace('_', '-')}" for name in options if getattr(args, name)]:
            print(f"{recipe.method} does not use {', '.join(unused)}")
        right, count, chosen = probe(cfg, recipe, lists, features, checkpoint)
        result = dict(right=right, count=count)
        split = "test" if lists.counts["test"] else "val"
        chance = task.chance(lists, split) if count else 0.0
        baseline = _baseline(lists, split)
        comparison = compare_share(**result, chance=chance, baseline=baseline, advice=PROBE_ADVICE)
        print(f"{recipe.method}, {chosen}: {comparison}")
    else:
        if not args.resume:
            (work_dir / LAST).unlink(missing_ok=True)  # of an earlier run
        several = ["--procs", str(args.procs)] if args.procs and args.procs > 1 else []
        start = ["--resume"] if args.resume else ["--force"]  # as the work dir was checked
        if status := train.main([str(path), *start, *several]):
            return status
        checkpoint = best_checkpoint(work_dir)
    if checkpoint:
        model = join([str(path), str(checkpoint)])
        print(f"done; test:    mmvidformer test {model}")
        print(f"      predict: mmvidformer demo {model} VIDEO")
        print(f"      export:  mmvidformer export {model} --out model.onnx", flush=True)
        result["checkpoint"] = str(checkpoint)
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    if memory:  # of this process; those of --procs use their own
        result["gpu_memory"] = memory / 2**20
    result_file = path.with_name("result.json")
    result_file.write_text(json.dumps(result) + "\n", encoding="utf-8")
    if "right" not in result and checkpoint and cfg.get("val_dataloader"):
        print("the validation list, by the test pipeline:", flush=True)
        result["validation"] = validate(path, str(checkpoint), several)
        result_file.write_text(json.dumps(result) + "\n", encoding="utf-8")
        baseline = None if args.shards or task.name != "classes" else _baseline(lists, "val")
        if comparison := compare_to_chance(task, lists, result["validation"], baseline):
            print(comparison)
    return 0


def _baseline(lists: VideoLists, split: str) -> Baseline | None:
    """Return what frame differences reach on a list of one class a video."""
    from mmvidformer.finetune.probes import videos_of

    return try_baseline(videos_of(lists, "train"), videos_of(lists, split))


def validate(config: Path, checkpoint: str, options: Sequence[str]) -> dict[str, float]:
    """Test a checkpoint on the validation list, as ``mmvidformer test`` does; return the metrics.

    Raises:
        UserError: If one of several processes fails.
    """
    folder = config.with_name("validation")
    arguments = [str(config), checkpoint, "--split", "val", "--work-dir", str(folder), *options]
    if status := test.main(arguments):
        raise UserError(f"the test of the validation list ended with status {status}")
    newest = max(folder.glob("val_*.json"), key=lambda file: file.stat().st_mtime)
    return json.loads(newest.read_text("utf-8"))["metrics"]
