"""Re-encode a dataset for fast decoding: mmvidformer data prepare LIST ... --out FOLDER.

Writes each video that lists of any task name to FOLDER as H.264 in mp4, and annotation files
without bad videos, which <name>_bad.csv lists. Run it again after an interruption: existing videos
are skipped. The exit code is 1 if some videos are bad.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.data.prepare import prepare_list
from mmvidformer.engine.arguments import positive


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare the videos and return the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("ann_files", nargs="+", help="annotation files")
    parser.add_argument("--out", required=True, help="folder to write to", metavar="FOLDER")
    for name, default, text in (
        ("short-side", 256, "short side in pixels; smaller videos keep their size"),
        ("key-frames", 16, "largest distance of key frames, in frames"),
        ("crf", 20, "quality, from 0 (lossless) to 51"),
    ):
        text = f"{text} (default: {default})"
        parser.add_argument(f"--{name}", type=int, default=default, help=text, metavar="N")
    parser.add_argument(
        "--root", default="", help="folder of the videos (the data_prefix)", metavar="FOLDER"
    )
    parser.add_argument(
        "--workers", type=positive, default=4, help="number of processes (default: 4)", metavar="N"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=3600,
        help="seconds for a file (3600)",
        metavar="SECONDS",
    )
    args = vars(parser.parse_args(argv))
    files = args.pop("ann_files")
    if len({Path(file).stem for file in files}) < len(files):
        parser.error(f"annotation files must have different names, got {', '.join(files)}")
    if min(args["short_side"], args["key_frames"]) < 1 or not 0 <= args["crf"] <= 51:
        parser.error("side and key frames must be positive, and crf from 0 to 51")
    return int(sum(prepare_list(file, **args) for file in files) > 0)
