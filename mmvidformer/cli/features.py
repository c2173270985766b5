"""Extract features of videos: mmvidformer features CONFIG CHECKPOINT VIDEOS --out DIR.

VIDEOS is a video, a folder, or a list in MMAction2's format (.txt). The features of class/clip.mp4
go to class/clip.mp4.npy: a vector (D,), or with --every to .npz: a row for each window. Existing
files are skipped. Exit status: 0, or 1 if a video failed (they are listed in failed.txt).
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mmvidformer.apis import VideoPipeline, features
from mmvidformer.config import load_config
from mmvidformer.datasets.own_videos import check_targets
from mmvidformer.engine.arguments import add_model_arguments, positive
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.inference import optimize_for_inference


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("videos", type=Path, help="video, folder or list")
    parser.add_argument("--out", type=Path, required=True, help="folder for the features")
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="the tokens of each view (views, T, H, W, D) instead of one vector (D,)",
    )
    parser.add_argument(
        "--every", type=positive, metavar="N", help="a row for the clip that starts every N frames"
    )
    parser.add_argument(
        "--rows",
        type=positive,
        metavar="N",
        help="resize the rows to N, for MMAction2 (100 for BMN)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=min(4, os.cpu_count() or 1),
        help="processes that read videos (default: 4, at most the number of cores; with --every 0)",
    )
    args = parser.parse_args(argv)
    if (args.tokens and args.every) or (args.rows and not args.every):
        parser.error("--rows needs --every, and --every is not for --tokens")
    root, videos = features.list_videos(args.videos)
    cfg = load_config(args.config, args.cfg_options)
    pipeline = VideoPipeline(cfg, 1 if args.every else None)
    model = load_recognizer(cfg, args.checkpoint, args.device, head=False)
    if not args.tokens:  # the optimized model computes no tokens that the features do not need
        model = optimize_for_inference(model)
    names = ["config", "checkpoint", "tokens"]
    if args.every:
        names += ["every", "rows"]
    settings = {name: getattr(args, name) for name in names}
    settings["overrides"] = str(args.cfg_options)
    suffix = ".csv" if args.rows else ".npz" if args.every else ".npy"
    targets = [features.target_of(video, root, args.out, suffix) for video in videos]
    check_targets(videos, targets)
    features.check_settings(args.out, settings)
    target_of = dict(zip(videos, targets, strict=True))
    missing = [video for video, target in target_of.items() if not target.exists()]
    if args.every:
        computed = features.every_window(pipeline, model, missing, args.every)
    else:
        computed = features.every_video(pipeline, model, missing, args.tokens, args.workers)
    failed = []
    for video, values, facts in tqdm(computed, total=len(missing), unit="video", disable=None):
        if isinstance(values, str):
            failed.append(f"{video}\t{values}\n")
            tqdm.write(f"failed: {values}", file=sys.stderr)
        else:
            features.write_features(target_of[video], values.numpy(), args.rows, **facts)
    written, skipped = len(missing) - len(failed), len(videos) - len(missing)
    (args.out / "failed.txt").write_text("".join(failed), encoding="utf-8")
    print(f"{written} written, {skipped} skipped, {len(failed)} failed")
    return 1 if failed else 0
