"""Draw accuracy against views: python tools/visualizations/views.py CONFIG CHECKPOINT --out FILE.

Tests once with all views and keeps the scores of each (in an .npz beside the picture). The
accuracy of fewer clips, and of the center crop alone, is computed from the same scores.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
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
from mmvidformer.visualization.scores import accuracy_by_views, draw_views


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, device=False)
    parser.add_argument("--out", type=Path, required=True, help="picture (.png, .pdf, .svg)")
    parser.add_argument(
        "--views",
        type=parse_views,
        default=(7, 3),
        metavar="KxC",
        help="clips x crops (1 or 3) of the test; 7 clips give the accuracy of 1, 2, 3, 4 and 7, "
        "13 also that of 5 and 13 (default: 7x3)",
    )
    parser.add_argument("--max-views", type=int, default=8, help="views per forward pass")
    add_shared_arguments(parser)
    args = parser.parse_args(argv)
    if args.views[1] == 10:
        parser.error("--views must have 1 or 3 crops, got 10")
    table = args.out.with_suffix(".npz")
    cfg = load_config(args.config, args.cfg_options)
    merge_shared_arguments(cfg, args)
    cfg.load_from, cfg.resume = args.checkpoint, False
    set_views(cfg, *args.views)
    if may_limit_views(cfg):
        limit_views(cfg, args.max_views)
    average = cfg.model.cls_head.get("average_clips") or "score"
    cfg.model.cls_head.average_clips = None
    cfg.test_evaluator = [dict(type="mmvidformer.SaveScores", path=str(table))]
    with launched(cfg, () if args.no_preflight else ("test",)) as runner:
        runner.test()
        if runner.rank != 0:
            return
    with np.load(table) as file:
        if "scores" not in file:
            raise ValueError(f"the head must have one task, got {', '.join(file)}")
        scores, labels = file["scores"], file["labels"]
    accuracy = accuracy_by_views(scores, labels, *args.views, average)
    draw_views(accuracy, f"{Path(args.config).stem}, {len(labels)} videos").savefig(args.out)
    for crops, curve in accuracy.items():
        for clips, value in curve.items():
            print(f"{clips}x{crops} views: {100 * value:.2f}%")
    print(f"written: {args.out}, {table}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
