"""Convert a checkpoint of a video transformer or an image ViT: ``convert_checkpoint.py SRC DST``.

The source's format is recognised by its names: scenic (msgpack or npz), HuggingFace, official or
MMAction2's TimeSformer, official feature fixation or HORST, BN-Inception, Google npz, timm, or
ours. What was mapped, ignored and lacking is printed; a source that does not fit ends with a
message and exit status 1.
"""

import argparse
import sys
from collections.abc import Sequence

from mmvidformer.convert.files import OUTPUTS, convert_file
from mmvidformer.engine.launch import run_tool


def _grid(text: str) -> tuple[int, int, int]:
    sizes = tuple(int(part) for part in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"a grid is three positive numbers T,H,W, got {text!r}")
    return sizes


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="SRC", help="file or HuggingFace folder")
    parser.add_argument("target", metavar="DST", help=".pth file, or folder for HuggingFace")
    parser.add_argument("--to", choices=OUTPUTS, default="mmvidformer")
    parser.add_argument("--grid", type=_grid, help="tokens T,H,W of the position table")
    parser.add_argument("--scheme", help="attention scheme, where the names do not tell")
    parser.add_argument("--num-heads", type=int, help="heads, where the source does not tell")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Convert, and return the exit status."""
    try:
        print(convert_file(**vars(parse_args(argv))))
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
