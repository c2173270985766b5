"""Extract features of videos: mmvidformer features CONFIG CHECKPOINT VIDEOS --out DIR.

VIDEOS is a video, a folder, or a list in MMAction2's format (.txt). The features of class/clip.mp4
go to class/clip.mp4.npy: a vector (D,), or with --every to .npz: a row for each window. Existing
files are skipped. Exit status: 0, or 1 if a video failed (they are listed in failed.txt).
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from mmvidformer.apis import VideoPipeline, features
from mmvidformer.config import load_config
from mmvidformer.engine.arguments import add_model_arguments, positive
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.inference import optimize_for_inference, reuse_frames


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
    args = parser.parse_args(argv)
    if (args.tokens and args.every) or (args.rows and not args.every):
        parser.error("--rows needs --every, and --every is not for --tokens")
    root, videos = features.list_videos(args.videos)
    cfg = load_config(args.config, args.cfg_options)
    pipeline = VideoPipeline(cfg, 1 if args.every else None)
    model = load_recognizer(cfg, args.checkpoint, args.device, head=False)
    if not args.tokens:  # the optimized model computes no tokens that the features do not need
        model = optimize_for_inference(model)
    model = reuse_frames(model)
    names = ("config", "checkpoint", "tokens", *(("every", "rows") if args.every else ()))
    settings = {name: getattr(args, name) for name in names} | {"overrides": str(args.cfg_options)}
    features.check_settings(args.out, settings)
    counts, failed = Counter(), []
    for video in tqdm(videos, unit="video", disable=None):
        suffix = ".csv" if args.rows else ".npz" if args.every else ".npy"
        target = features.target_of(video, root, args.out, suffix)
        if target.exists():
            counts["skipped"] += 1
            continue
        try:
            opened = pipeline.open(video)
            if args.every:
                facts, clips = features.read_windows(pipeline, opened, args.every, model)
            else:
                facts, clips = {}, [pipeline.read(opened)["inputs"]]
            found = [features.backbone_features(model, one, args.tokens) for one in clips]
        except (OSError, ValueError) as error:
            failed.append(f"{video}\t{error}\n")
            tqdm.write(f"failed: {error}", file=sys.stderr)
            continue
        found = found if args.tokens else [one.mean(dim=0) for one in found]
        values = torch.stack(found).numpy() if args.every else found[0].numpy()
        features.write_features(target, values, args.rows, **facts)
        counts["written"] += 1
    (args.out / "failed.txt").write_text("".join(failed), encoding="utf-8")
    print(f"{counts['written']} written, {counts['skipped']} skipped, {len(failed)} failed")
    return 1 if failed else 0
