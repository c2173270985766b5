"""Draw accuracy against views: mmvidformer plot views WORK_DIR --out FILE.

Reads test_<views>_<fusion>.json, which mmvidformer test saved in the work dir: first test a
checkpoint with --views 1x1, 2x1, 4x1, 1x3 and so on. There is a curve for each number of crops.
"""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.visualization.plots import draw_views


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("work_dir", type=Path, help="work dir of the tests")
    parser.add_argument("--out", type=Path, required=True, help="picture (.png, .pdf, .svg)")
    parser.add_argument("--metric", default="acc/top1", help="default: %(default)s")
    args = parser.parse_args(argv)
    tests = [json.loads(file.read_text("utf-8")) for file in args.work_dir.glob("test_*x*_*.json")]
    curves: dict[str, dict[int, float]] = defaultdict(dict)
    for one in sorted(tests, key=lambda one: [int(n) for n in one["views"].split("x")]):
        clips, crops = one["views"].split("x")
        if args.metric in one["metrics"]:
            name = f"{crops} crop{'s' if crops != '1' else ''}"
            name += "" if one["fuse"] == "score" else f", {one['fuse']}"
            curves[name][int(clips)] = one["metrics"][args.metric]
    if not curves:
        raise ValueError(f"{args.work_dir} has no test_<views>_<fusion>.json with {args.metric}")
    checkpoints = ", ".join(sorted({Path(one["checkpoint"]).name for one in tests}))
    draw_views(curves, args.metric, checkpoints).savefig(args.out)
    print(f"written: {args.out}")
