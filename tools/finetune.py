"""Fine-tune on videos of your own: mmvidformer finetune --config NAME --data FOLDER.

FOLDER has the lists that mmvidformer data list writes. The work dir gets the complete
config (finetune/config.py), with which all other tools work.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.__main__ import main as run_command
from mmvidformer.config import load_config, merge_overrides
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.loading import build_meta_model, load_weights, read_checkpoint
from mmvidformer.finetune import Recipe, apply_recipe
from mmvidformer.finetune.arguments import add_run_arguments, config_path, read_settings
from mmvidformer.tasks.lists import TASKS, read_task_lists


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    add_run_arguments(parser, "folder of the lists")
    parser.add_argument("--task", choices=TASKS, help="what to predict (default: classes)")
    parser.add_argument(
        "--weights",
        help="checkpoint or address to start from, of this project or any that "
        "mmvidformer convert reads (default: as in the config)",
    )
    parser.add_argument(
        "--lr", type=float, help="learning rate (default: the config's, scaled with the batch)"
    )
    balance = "let rare classes count as much as frequent ones, in the loss or by drawing more"
    parser.add_argument("--balance", choices=("weights", "sampling"), help=balance)
    parser.add_argument("--freeze", action="store_true", help="train only the head (linear probe)")
    parser.add_argument(
        "--layer-decay", type=float, help="factor of the learning rate per layer, such as 0.75"
    )
    parser.add_argument("--prepare", action="store_true", help="write the config, do not train")
    return parser.parse_args(argv)


def prepare(args: Namespace) -> Path:
    """Write the config into the work dir, and print what was changed."""
    path = config_path(args, "finetune")
    recipe = read_settings(Recipe, args)
    cfg, lists = load_config(args.config), read_task_lists(args.data, recipe.task)
    counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
    kind = "values" if recipe.task == "number" else "classes"
    print(f"{len(lists.classes)} {kind}; videos: {counts}")
    notes = apply_recipe(cfg, lists, recipe)
    merge_overrides(cfg, args.cfg_options)
    cfg.work_dir = str(path.parents[1])
    if args.weights:
        model = build_meta_model(cfg)
        fit = load_weights(model, read_checkpoint(args.weights, model, "meta"))
        fit.check(args.weights, "features")
        notes.append(f"starts from {args.weights}; initial weights: {str(fit) or 'none'}")
        cfg.merge_from_dict(dict(load_from=args.weights, resume=False))
        if "init_from" in cfg.model.backbone:
            cfg.model.backbone.init_from = None
    else:
        start = cfg.model.get("backbone", {}).get("init_from")
        notes.append(f"no --weights: the backbone starts from {start or 'random weights'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    cfg.dump(path)
    print("\n".join(notes))
    print(f"config: {path}", flush=True)
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare and train, print the commands that follow, and return the exit status."""
    args = parse_args(argv)
    path = prepare(args)
    if args.prepare:
        return 0
    several = ["--procs", str(args.procs)] if args.procs and args.procs > 1 else []
    if status := run_command(["train", str(path), *several]):
        return status
    work_dir = path.parents[1]
    best = sorted(work_dir.glob("best_*.pth"), key=lambda file: file.stat().st_mtime)
    last = sorted(work_dir.glob("epoch_*.pth"), key=lambda file: file.stat().st_mtime)
    checkpoint = (best or last)[-1]
    print(f"done; test:    mmvidformer test {path} {checkpoint}")
    print(f"      predict: mmvidformer demo {path} {checkpoint} VIDEO")
    return 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
