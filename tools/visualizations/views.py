"""Draw accuracy against views: python tools/visualizations/views.py CONFIG CHECKPOINT --out FILE.

Tests once with all views and keeps the scores of each (in an .npz beside the picture); the accuracy
of fewer clips and of the middle crop alone comes from the same scores.
"""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmvidformer.config import load_config
from mmvidformer.engine.launch import (
    add_model_arguments,
    add_shared_arguments,
    launched,
    merge_shared_arguments,
    run_tool,
)
from mmvidformer.engine.views import limit_views, may_limit_views, parse_views, set_views
from mmvidformer.visualization import accuracy_by_views, draw_views


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, device=False)
    parser.add_argument("--out", type=Path, required=True, help="the picture (.png, .pdf, .svg)")
    parser.add_argument(
        "--views",
        type=parse_views,
        default=(7, 3),
        metavar="KxC",
        help="clips x crops (1 or 3) of the test; of 7 clips tests with 1, 2, 3, 4 and 7 are drawn,"
        " of 13 also 5 and 13 (default 7x3)",
    )
    parser.add_argument(
        "--fuse", choices=["score", "prob"], default="score", help="average logits (default) or "
        "probabilities",
    )  # fmt: skip
    parser.add_argument("--max-views", type=int, default=8, help="clips through the model at once")
    add_shared_arguments(parser)
    args = parser.parse_args(argv)
    if args.views[1] == 10:
        parser.error("--views: 1 or 3 crops")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Test, draw and save."""
    args = parse_args(argv)
    table = args.out.with_suffix(".npz")
    cfg = load_config(args.config, args.cfg_options)
    merge_shared_arguments(cfg, args)
    cfg.load_from, cfg.resume = args.checkpoint, False
    set_views(cfg, *args.views)
    if may_limit_views(cfg):
        limit_views(cfg, args.max_views)
    cfg.model.cls_head.average_clips = None
    cfg.test_evaluator = [dict(type="mmvidformer.SaveScores", path=str(table))]
    with launched(cfg, () if args.no_preflight else ("test",)) as runner:
        runner.test()
        first = runner.rank == 0
    if not first:
        return
    with np.load(table) as file:
        if "scores" not in file:
            raise ValueError(
                f"views are drawn of heads of one task; this one has {', '.join(file)}"
            )
        scores, labels = file["scores"], file["labels"]
    accuracy = accuracy_by_views(scores, labels, *args.views, fuse=args.fuse)
    title = f"{Path(args.config).stem}, {len(labels)} videos"
    draw_views(accuracy, title).savefig(args.out)
    for crops, curve in accuracy.items():
        for clips, value in curve.items():
            print(f"{clips}x{crops} views: {100 * value:.2f}%")
    print(f"{args.out}, {table}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
