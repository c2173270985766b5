"""Convert a checkpoint of a video transformer or an image ViT.

python tools/convert_checkpoint.py SRC DST.pth

The format of SRC is recognized by the names of its weights: scenic (msgpack or npz), HuggingFace,
official or MMAction2's TimeSformer, official feature fixation or HORST, BN-Inception, Google npz,
timm, or mmvidformer. Prints which weights were mapped, ignored and missing. The exit status is 1
if the weights do not fit.
"""

import argparse
import sys
from collections.abc import Sequence

from mmvidformer.convert import convert_file
from mmvidformer.convert.formats import OUTPUTS
from mmvidformer.engine.launch import run_tool


def _grid(text: str) -> tuple[int, int, int]:
    sizes = tuple(int(part) for part in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"must be three positive numbers T,H,W, got {text!r}")
    return sizes


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="SRC", help="checkpoint file or HuggingFace folder")
    parser.add_argument("target", metavar="DST", help=".pth file, or HuggingFace folder")
    parser.add_argument("--to", choices=OUTPUTS, default="mmvidformer", help="format of DST")
    parser.add_argument(
        "--grid", type=_grid, help="tokens T,H,W of the position table, if ambiguous"
    )
    parser.add_argument("--scheme", help="attention scheme, if the names are ambiguous")
    parser.add_argument(
        "--num-heads", type=int, help="number of attention heads, if SRC does not contain it"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Convert the checkpoint and return the exit status."""
    try:
        print(convert_file(**vars(parse_args(argv))))
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
