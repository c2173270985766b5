"""Draw training curves: mmvidformer plot curves WORK_DIR ... --out FILE.

Loss, learning rate and accuracy of one or more runs, from the vis_data/scalars.json that MMEngine
writes into a work dir. A resumed run is one curve; a run may still be in progress.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.engine.arguments import add_force_argument, check_outputs
from mmvidformer.sinks.figures import save_figure
from mmvidformer.visualization.plots import draw_training, read_log


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="work dirs")
    parser.add_argument(
        "--out", type=Path, required=True, help="picture (.png, .pdf, .svg)", metavar="FILE"
    )
    parser.add_argument(
        "--names", nargs="+", help="names of the runs (default: their paths)", metavar="NAME"
    )
    add_force_argument(parser)
    args = parser.parse_args(argv)
    names = args.names or list(map(str, args.runs))
    if len(names) != len(args.runs):
        parser.error(f"--names must name each of the {len(args.runs)} runs, got {len(names)}")
    if len(set(names)) != len(names):
        parser.error(f"runs must have different names, got {', '.join(names)}")
    check_outputs(vars(args), [("--out", args.out)], "out")
    logs = {name: read_log(run) for name, run in zip(names, args.runs, strict=True)}
    save_figure(draw_training(logs), args.out)
    print(f"written: {args.out}")
