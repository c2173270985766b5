"""Re-encode a dataset for fast decoding: mmvidformer data prepare LIST ... --out FOLDER.

Writes each video that lists of any task name to FOLDER as H.264 in mp4, and annotation files
without bad videos, which <name>_bad.csv lists. Run it again after an interruption: existing videos
are skipped. The exit code is 1 if some videos are bad.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import Options, argument, option, parse_options
from mmvidformer.errors import UserError


@dataclass(frozen=True)
class PrepareOptions(Options):
    """Lists, and how their videos are encoded."""

    ann_files: Sequence[str] = argument("annotation files", nargs="+")
    out: str = option("folder to write to", required=True, metavar="FOLDER")
    short_side: int = option("short side in pixels; smaller videos keep their size", 256, type=int)
    key_frames: int = option("largest distance of key frames, in frames", 16, type=int)
    crf: int = option("quality, from 0 (lossless) to 51", 20, type=int)
    root: str = option("folder of the videos (the data_prefix)", "", metavar="FOLDER")
    workers: int = option("number of processes", 4, type=positive)
    time_limit: float = option("seconds for a file", 3600.0, type=float, metavar="SECONDS")

    def _check(self) -> None:
        if len({Path(file).stem for file in self.ann_files}) < len(self.ann_files):
            names = ", ".join(self.ann_files)
            raise UserError(f"annotation files must have different names, got {names}")
        if min(self.short_side, self.key_frames) < 1 or not 0 <= self.crf <= 51:
            raise UserError("side and key frames must be positive, and crf from 0 to 51")


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare the videos and return the exit code."""
    options = parse_options(PrepareOptions, argv, __doc__)
    from mmvidformer.data.prepare import prepare_list

    arguments = {**vars(options)}
    files = arguments.pop("ann_files")
    return int(sum(prepare_list(file, **arguments) for file in files) > 0)
