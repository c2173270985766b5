"""Extract features of many videos: mmvidformer features MODEL [CHECKPOINT] INPUT --out DIR.

Writes Parquet files: a row with a vector for each video, with --every for each clip. With --files
the features of class/clip.mp4 go to class/clip.mp4.npy instead, or with --every to .npz. Bad videos
are in _failed.csv. After an interruption, run the same command again to continue. With --ray it
runs on a cluster.

Exit status: 0, or 1 if a video failed.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmvidformer.apis.bulk.command import answer_all, find_bulk_model
from mmvidformer.apis.bulk.extraction import FeatureExtractor
from mmvidformer.apis.bulk.options import BulkOptions, add_bulk_arguments
from mmvidformer.apis.bulk.settings import row_settings
from mmvidformer.data.sources import list_inputs
from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import add_options, option, read_options
from mmvidformer.sinks.parquet import ParquetTable
from mmvidformer.sinks.video_files import VideoFiles
from mmvidformer.storage.parts import PartTable


@dataclass(frozen=True)
class FormOptions:
    """The form of features."""

    tokens: bool = option(
        "the tokens of each view (views, T, H, W, D) instead of one vector (D,)",
        False,
        action="store_true",
    )
    every: int | None = option(
        "a row for the clip that starts every N frames", type=positive, metavar="N"
    )
    layers: Sequence[int] | None = option(
        "outputs of these blocks, from 0, one after the other in the width of the features "
        "(default: the last one)",
        type=int,
        nargs="+",
        metavar="N",
    )
    files: bool = option("a file for each video, for training", False, action="store_true")
    rows: int | None = option(
        "with --files: resize the rows to N, for MMAction2 (100 for BMN)",
        type=positive,
        metavar="N",
    )


@dataclass(frozen=True)
class FeatureOptions(FormOptions, BulkOptions):
    """Options of features."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_bulk_arguments(parser)
    add_options(parser, FormOptions, "form")
    options = read_options(FeatureOptions, parser.parse_intermixed_args(argv))
    has_files = options.every and options.files
    if (options.tokens and options.every) or (options.rows and not has_files):
        parser.error("--rows needs --every and --files, and --every is not for --tokens")
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
