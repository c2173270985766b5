"""Draw training curves: python tools/visualizations/training_curves.py WORK_DIR ... --out FILE.

Loss, learning rate and accuracy of one run or several, from the vis_data/scalars.json that MMEngine
writes into a work dir. A resumed run is one curve; a run may still be going on.
"""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.engine.launch import run_tool
from mmvidformer.visualization import draw_training, read_log


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="work dirs, or scalars.json files")
    parser.add_argument("--out", type=Path, required=True, help="the picture (.png, .pdf, .svg)")
    parser.add_argument("--names", nargs="+", help="of the runs, in order; default: their paths")
    parser.add_argument(
        "--figures", nargs="+", help="of validation, such as acc/mean1; default: those with top1"
    )
    args = parser.parse_args(argv)
    args.names = args.names or list(map(str, args.runs))
    if len(args.names) != len(args.runs):
        parser.error(f"{len(args.names)} names for {len(args.runs)} runs")
    if len(set(args.names)) != len(args.names):
        parser.error(f"a run occurs twice: {', '.join(args.names)}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Read, draw and save."""
    args = parse_args(argv)
    logs = {name: read_log(run) for name, run in zip(args.names, args.runs, strict=True)}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draw_training(logs, args.figures).savefig(args.out)
    print(args.out)


if __name__ == "__main__":
    sys.exit(run_tool(main))
