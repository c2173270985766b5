"""Map the features of a data set's videos: python tools/visualizations/tsne.py CONFIG CHECKPOINT.

Runs the backbone over one centre view of each video and places the features in the plane by t-SNE.
Beside the picture lies an .npz with features, labels and places.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mmengine.config import DictAction
from tqdm import tqdm

from mmvidformer.config import load_config
from mmvidformer.engine.launch import run_tool
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.visualization import (
    build_split,
    check_perplexity,
    collect_features,
    draw_classes,
    embed_in_plane,
)


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config file, or the name of a shipped config")
    parser.add_argument("checkpoint", help="checkpoint file or address; needs no head")
    parser.add_argument("--out", type=Path, required=True, help="the picture (.png, .pdf, .svg)")
    parser.add_argument("--split", choices=["train", "val", "test"], default="test")
    parser.add_argument("--max-videos", type=int, help="take that many at random; default: all")
    parser.add_argument("--perplexity", type=float, default=30, help="of t-SNE (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice and of t-SNE")
    parser.add_argument("--task", type=int, default=0, help="which label, where there are several")
    parser.add_argument("--names", type=Path, help="text file with a class name a line")
    parser.add_argument("--batch-size", type=int, default=8, help="videos a batch")
    parser.add_argument("--workers", type=int, default=2, help="processes that read videos")
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Collect, embed, draw and save."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    model = load_recognizer(cfg, args.checkpoint, args.device, head=False)
    videos = build_split(cfg, args.split, args.max_videos, args.seed)
    check_perplexity(args.perplexity, len(videos))  # before the long part

    def progress(batches):
        return tqdm(batches, unit="batch", disable=None)

    features = collect_features(model, videos, args.batch_size, args.workers, progress)
    labels = features.labels if features.labels.ndim == 1 else features.labels[:, args.task]
    names = args.names.read_text(encoding="utf-8").splitlines() if args.names else None
    if names is not None and labels.max() >= len(names):
        raise ValueError(
            f"{args.names} has {len(names)} names, but there is a class {labels.max()}"
        )
    places = embed_in_plane(features.values, args.perplexity, args.seed)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    title = f"{Path(args.config).stem}, {args.split}: {len(labels)} videos"
    draw_classes(places, labels, names, title).savefig(args.out, bbox_inches="tight")
    table = args.out.with_suffix(".npz")
    np.savez(table, features=features.values, labels=features.labels, places=places)
    print(f"{args.out}, {table}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
