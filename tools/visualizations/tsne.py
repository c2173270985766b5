"""Draw the features of a dataset: python tools/visualizations/tsne.py CONFIG CHECKPOINT --out FILE.

Runs the backbone on one center view of each video, and embeds the features in the plane by t-SNE
(van der Maaten & Hinton, JMLR 2008). An .npz beside the picture holds features, labels and points.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.manifold import TSNE

from mmvidformer.apis import (
    build_split,
    class_names,
    class_tasks,
    known_names,
    split_features,
)
from mmvidformer.config import load_config
from mmvidformer.engine.arguments import add_classes_argument, add_model_arguments
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.lookup import look_up
from mmvidformer.visualization.plots import draw_classes


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="picture (.png, .pdf, .svg)")
    parser.add_argument("--split", choices=["train", "val", "test"], default="test")
    parser.add_argument("--max-videos", type=int, help="number to choose at random (default: all)")
    parser.add_argument("--perplexity", type=float, default=30, help="of t-SNE (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice and of t-SNE")
    parser.add_argument("--task", help="such as verb, if the head has several tasks")
    add_classes_argument(parser)
    parser.add_argument("--batch-size", type=int, default=8, help="videos per batch (default: 8)")
    parser.add_argument("--workers", type=int, default=2, help="dataloader workers (default: 2)")
    args = parser.parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    tasks = class_tasks(cfg)
    task = look_up(list(tasks), args.task or next(iter(tasks)), "task")
    videos = build_split(cfg, args.split, args.max_videos, args.seed)
    if not 0 < args.perplexity < len(videos):
        raise ValueError(
            f"--perplexity must be positive and below the number of videos, {len(videos)}; got "
            f"{args.perplexity:g}"
        )
    model = load_recognizer(cfg, args.checkpoint, args.device, head=False)
    names = class_names(tasks, args.classes, known_names(cfg, model))
    features, labels = split_features(model, videos, args.batch_size, args.workers)
    embed = TSNE(perplexity=args.perplexity, init="pca", random_state=args.seed)
    points = embed.fit_transform(features)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    shown = labels if labels.ndim == 1 else labels[:, list(tasks).index(task)]
    title = f"{Path(args.config).stem}, {args.split}: {len(labels)} videos"
    figure = draw_classes(points, shown, names[task], title)
    figure.savefig(args.out, bbox_inches="tight")
    table = args.out.with_suffix(".npz")
    np.savez(table, features=features, labels=labels, points=points)
    print(f"written: {args.out}, {table}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
