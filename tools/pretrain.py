"""Pretrain on videos without labels: mmvidformer pretrain --config NAME --data FOLDER.

The model of the config learns to predict the pixels of masked places (VideoMAE), on all videos in
FOLDER and its subfolders. Continue with mmvidformer finetune --weights CHECKPOINT.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from mmvidformer.__main__ import main as run_command
from mmvidformer.config import config_name, load_config, merge_overrides
from mmvidformer.datasets.own_videos import find_videos
from mmvidformer.engine.arguments import add_overrides
from mmvidformer.engine.errors import run_tool
from mmvidformer.finetune import Pretraining, apply_pretraining


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--data", required=True, help="folder of videos")
    parser.add_argument(
        "--work-dir", type=Path, help="default: work_dirs/<name of the config>_pretrain"
    )
    parser.add_argument("--epochs", type=int, help="default: 800")
    parser.add_argument("--batch", type=int, help="batch size per process (default: 32)")
    parser.add_argument(
        "--procs", "--gpus", type=int, help="processes, one per GPU if there are GPUs (default: 1)"
    )
    parser.add_argument("--mask-ratio", type=float, help="share that is masked (default: 0.9)")
    parser.add_argument(
        "--lr", type=float, help="learning rate for a total batch of 256 (default: 1.5e-4)"
    )
    parser.add_argument("--amp", action="store_true", help="mixed precision (bfloat16 on CPU)")
    parser.add_argument("--workers", type=int, help="dataloader workers per process")
    parser.add_argument("--seed", type=int, help="random seed (default: 0)")
    add_overrides(parser)
    parser.add_argument("--force", action="store_true", help="start again in a used work dir")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the config, train, print the commands that follow, and return the exit status."""
    args = parse_args(argv)
    work_dir = args.work_dir or Path("work_dirs") / f"{config_name(args.config)}_pretrain"
    path = work_dir / "pretrain" / "config.py"
    if path.exists() and not args.force:
        raise FileExistsError(
            f"{path} exists; mmvidformer train {path} --resume resumes that run, "
            "--force starts again"
        )
    given = {one.name: getattr(args, one.name) for one in fields(Pretraining)}
    settings = Pretraining(**{name: value for name, value in given.items() if value is not None})
    cfg, videos = load_config(args.config), find_videos(args.data)
    notes = apply_pretraining(cfg, videos, path.parent, settings)
    merge_overrides(cfg, args.cfg_options)
    cfg.work_dir = str(work_dir)
    cfg.dump(path)
    print("\n".join(notes), f"config: {path}", sep="\n", flush=True)
    several = ["--procs", str(settings.procs)] if settings.procs > 1 else []
    if status := run_command(["train", str(path), *several]):
        return status
    checkpoint = work_dir / f"epoch_{settings.epochs}.pth"
    print(f"done; look:      mmvidformer plot masked {path} {checkpoint} {videos[0]}")
    print(f"      fine-tune: mmvidformer finetune --config {args.config} --weights {checkpoint}")
    return 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
