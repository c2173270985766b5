"""Fine-tune on videos of your own: python tools/finetune.py --config NAME --data FOLDER.

FOLDER has the lists that tools/data/make_annotations.py writes. The work dir gets the whole config
(finetune/config.py), with which all other tools work, and the weights to start from (start.pth).
"""

import os
import runpy
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from mmengine.config import DictAction

from mmvidformer.config import load_config
from mmvidformer.datasets.own_videos import read_lists
from mmvidformer.finetune import Recipe, apply_recipe, start_from


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--data", required=True, help="folder of the lists")
    parser.add_argument(
        "--weights",
        help="checkpoint to start from, ours or of any project that tools/convert_checkpoint.py "
        "knows; default: as the config says",
    )
    parser.add_argument(
        "--work-dir", type=Path, help="default: work_dirs/<name of the config>_finetune"
    )
    parser.add_argument("--epochs", type=int, help="default: the config's")
    parser.add_argument(
        "--batch", type=int, help="clips a process and step (default: the config's)"
    )
    parser.add_argument(
        "--procs", "--gpus", type=int, default=1, help="processes, one a GPU if there are GPUs"
    )
    parser.add_argument(
        "--lr", type=float, help="learning rate; default: the config's, scaled by the batch"
    )
    parser.add_argument("--freeze", action="store_true", help="train the head alone (linear probe)")
    parser.add_argument(
        "--layer-decay", type=float, help="factor of the rate from a layer to the one before: 0.75"
    )
    parser.add_argument(
        "--patience", type=int, help="stop after so many validations without a better top-1"
    )
    parser.add_argument("--amp", action="store_true", help="mixed precision (bfloat16 on CPU)")
    parser.add_argument("--workers", type=int, help="processes that read videos, for each process")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument(
        *("--cfg-options", "--set"),
        nargs="+",
        action=DictAction,
        help="settings to change after all else, as key=value",
    )
    parser.add_argument("--force", action="store_true", help="start anew in a used work dir")
    parser.add_argument("--prepare", action="store_true", help="write the config, do not train")
    return parser.parse_args(argv)


def prepare(args: Namespace) -> Path:
    """Write config and weights into the work dir, and print what they are."""
    name = Path(args.config.removeprefix("mmvidformer::")).stem
    work_dir = args.work_dir or Path("work_dirs") / f"{name}_finetune"
    # Not in the work dir itself: there every run, also a test with other views, writes its own.
    path = work_dir / "finetune" / "config.py"
    if path.exists() and not args.force:
        raise FileExistsError(
            f"{path} is there already; tools/train.py {path} --resume goes on with that run, "
            "--force starts anew"
        )
    cfg, lists = load_config(args.config), read_lists(args.data)
    recipe = Recipe(**{field.name: getattr(args, field.name) for field in fields(Recipe)})
    counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
    print(f"{len(lists.classes)} classes; videos: {counts}")
    notes = apply_recipe(cfg, lists, recipe)
    if args.cfg_options is not None:
        cfg.merge_from_dict(args.cfg_options)
    path.parent.mkdir(parents=True, exist_ok=True)
    if args.weights:
        notes += start_from(cfg, args.weights, work_dir / "start.pth")
    else:
        start = cfg.model.get("backbone", {}).get("init_from")
        notes.append(f"no --weights: the backbone starts from {start or 'random weights'}")
    cfg.work_dir = str(work_dir)
    cfg.dump(path)
    print("\n".join(notes))
    print(f"config: {path}", flush=True)
    return path


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare, train, and say what comes next."""
    args = parse_args(argv)
    path = prepare(args)
    if args.prepare:
        return
    if args.procs > 1:
        script = Path(__file__).with_name("dist_train.sh")
        env = {"PYTHON": sys.executable, **os.environ}
        done = subprocess.run([script, path, str(args.procs)], env=env, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)
    else:
        train = runpy.run_path(str(Path(__file__).with_name("train.py")))["main"]
        train([str(path)])
    work_dir = path.parents[1]
    best = sorted(work_dir.glob("best_*.pth"), key=lambda file: file.stat().st_mtime)
    last = sorted(work_dir.glob("epoch_*.pth"), key=lambda file: file.stat().st_mtime)
    checkpoint = (best or last)[-1]
    print(f"done; test:    python tools/test.py {path} {checkpoint}")
    print(f"      predict: python tools/demo.py {path} {checkpoint} VIDEO")


if __name__ == "__main__":
    main()
