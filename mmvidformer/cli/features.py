"""Extract features of many videos: mmvidformer features MODEL [CHECKPOINT] INPUT --out DIR.

Writes Parquet files: a row with a vector for each video, with --every for each clip. With --files
the features of class/clip.mp4 go to class/clip.mp4.npy instead, or with --every to .npz. Bad videos
are in _failed.csv. After an interruption, run the same command again to continue. With --ray it
runs on a cluster.

Exit status: 0, or 1 if a video failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mmvidformer.engine.arguments import positive
from mmvidformer.engine.bulk_options import BulkOptions
from mmvidformer.engine.options import flag, option, parse_options
from mmvidformer.errors import UserError

if TYPE_CHECKING:
    from mmvidformer.storage.parts import PartTable


@dataclass(frozen=True)
class FeatureOptions(BulkOptions):
    """The form of features."""

    title: ClassVar = "form"
    tokens: bool = flag("the tokens of each view (views, T, H, W, D) instead of one vector (D,)")
    every: int | None = option("a row for the clip that starts every N frames", type=positive)
    layers: Sequence[int] | None = option(
        "outputs of these blocks, from 0, one after the other in the width of the features "
        "(default: the last one)",
        type=int,
        nargs="+",
        metavar="N",
    )
    files: bool = flag("a file for each video, for training")
    rows: int | None = option(
        "with --files: resize the rows to N, for MMAction2 (100 for BMN)", type=positive
    )

    def _check(self) -> None:
        has_files = self.every and self.files
        if (self.tokens and self.every) or (self.rows and not has_files):
            raise UserError("--rows needs --every and --files, and --every is not for --tokens")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    options = parse_options(FeatureOptions, argv, __doc__)
    from mmvidformer.apis.bulk.command import answer_all, find_bulk_model
    from mmvidformer.apis.bulk.extraction import FeatureExtractor
    from mmvidformer.apis.bulk.settings import row_settings
    from mmvidformer.data.sources import list_inputs
    from mmvidformer.sinks.parquet import ParquetTable
    from mmvidformer.sinks.video_files import VideoFiles

    inputs = list_inputs(options.input)
    cfg, checkpoint = find_bulk_model(options, inputs)
    form = dict(every=options.every, tokens=options.tokens, layers=options.layers)
    load = partial(FeatureExtractor, cfg, checkpoint, **form, **options.inexact)
    answerer = load(device="cpu" if options.ray else options.device)
    settings = dict(command="features", **row_settings(options, cfg, checkpoint, inputs))
    table: PartTable
    if options.files:
        files = options.out, Path(inputs.root), inputs.names, bool(options.every), options.rows
        table = VideoFiles(*files, settings, options.part)
    else:
        table = ParquetTable(options.out, answerer.columns, settings, inputs.names, options.part)
    with table:
        return answer_all(load, answerer, table, inputs, options)
