"""Draw accuracy against views: python -m lab plot views WORK_DIR --out FILE.

Reads test_<views>_<fusion>.json, which mmvidformer test saved in the work dir: first test a
checkpoint with --views 1x1, 2x1, 4x1, 1x3 and so on. There is a curve for each number of crops.
"""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import UserError
from mmvidformer.sinks.figures import save_figure, without_formulas


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("work_dir", type=Path, help="work dir of the tests")
    parser.add_argument(
        "--out", type=Path, required=True, help="picture (.png, .pdf, .svg)", metavar="FILE"
    )
    parser.add_argument("--metric", default="acc/top1", help="default: %(default)s")
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    check_outputs(vars(args), [("--out", args.out)], "out")
    tests = [json.loads(file.read_text("utf-8")) for file in args.work_dir.glob("test_*x*_*.json")]
    tests.sort(key=views_of)
    curves: dict[str, dict[int, float]] = defaultdict(dict)
    for test in tests:
        if args.metric in test["metrics"]:
            clips, crops = views_of(test)
            name = f"{crops} crop" if crops == 1 else f"{crops} crops"
            if test["fuse"] != "score":
                name += f", {test['fuse']}"
            curves[name][clips] = test["metrics"][args.metric]
    if not curves:
        raise UserError(f"{args.work_dir} has no test_<views>_<fusion>.json with {args.metric}")
    checkpoints = sorted({Path(test["checkpoint"]).name for test in tests})
    save_figure(draw_views(curves, args.metric, ", ".join(checkpoints)), args.out)
    print(f"written: {args.out}")


def views_of(test: dict) -> tuple[int, int]:
    """Return the numbers of clips and crops of a test."""
    clips, crops = test["views"].split("x")
    return int(clips), int(crops)


def draw_views(
    accuracy: Mapping[str, Mapping[int, float]], metric: str = "top-1 accuracy", title: str = ""
) -> Figure:
    """Draw accuracies, from 0 to 1, by the number of clips: a curve for each name."""
    figure = Figure(figsize=(6, 4), dpi=110, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="clips per video")
    for name, curve in accuracy.items():
        axes.plot(list(curve), [100 * value for value in curve.values()], marker="o", label=name)
    clips = {count for curve in accuracy.values() for count in curve}
    axes.set(ylabel=f"{metric} in %", xticks=sorted(clips))
    axes.grid(alpha=0.3)
    axes.legend()
    return without_formulas(figure)
