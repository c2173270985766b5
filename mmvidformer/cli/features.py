"""Extract features of many videos: mmvidformer features MODEL [CHECKPOINT] INPUT --out DIR.

Writes Parquet files: a row with a vector for each video, with --every for each clip. With --files
the features of class/clip.mp4 go to class/clip.mp4.npy instead, or with --every to .npz. Bad videos
are in _failed.csv. After an interruption, run the same command again to continue. With --ray it
runs on a cluster.

Exit status: 0, or 1 if a video failed.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mmvidformer.apis.bulk.command import answer_all, find_bulk_model
from mmvidformer.apis.bulk.extraction import FeatureExtractor
from mmvidformer.apis.bulk.parquet import ParquetTable
from mmvidformer.apis.bulk.run import Job
from mmvidformer.apis.bulk.saving import Table, locked
from mmvidformer.apis.bulk.settings import make_writable, row_settings
from mmvidformer.apis.bulk.video_files import VideoFiles
from mmvidformer.data.sources import list_inputs
from mmvidformer.engine.arguments import add_bulk_arguments, inexact_options, positive
from mmvidformer.errors import FileThere
from mmvidformer.storage.files import exists, join
from mmvidformer.storage.settings import SETTINGS, check_settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_bulk_arguments(parser)
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="the tokens of each view (views, T, H, W, D) instead of one vector (D,)",
    )
    parser.add_argument(
        "--every", type=positive, metavar="N", help="a row for the clip that starts every N frames"
    )
    parser.add_argument(
        "--layers",
        type=int,
        nargs="+",
        metavar="N",
        help="outputs of these blocks, from 0, one after the other in the width of the features "
        "(default: the last one)",
    )
    parser.add_argument("--files", action="store_true", help="a file for each video, for training")
    parser.add_argument(
        "--rows",
        type=positive,
        metavar="N",
        help="with --files: resize the rows to N, for MMAction2 (100 for BMN)",
    )
    args = parser.parse_intermixed_args(argv)
    if (args.tokens and args.every) or (args.rows and not (args.every and args.files)):
        parser.error("--rows needs --every and --files, and --every is not for --tokens")
    inputs = list_inputs(args.input)
    cfg, checkpoint = find_bulk_model(args, inputs)
    inexact = inexact_options(args)
    options = dict(every=args.every, tokens=args.tokens, layers=args.layers, **inexact)
    load = partial(FeatureExtractor, cfg, checkpoint, **options)
    answerer = load(device="cpu" if args.ray else args.device)
    settings = dict(command="features", **row_settings(args, cfg, checkpoint, inputs))
    make_writable(args.out)
    with locked(args.out):
        table: Table
        if args.files:
            root = Path(inputs.root)
            table = VideoFiles(args.out, root, inputs.names, bool(args.every), args.rows)
            if len(table.missing()) < len(inputs.names) and not exists(join(args.out, SETTINGS)):
                what = "has files of other origin with the names of results"
                raise FileThere(f"{args.out} {what}; use another folder")
            check_settings(args.out, settings)
        else:
            table = ParquetTable(args.out, answerer.columns, settings, inputs.names)
        job = Job(load, args.batch, args.workers, args.time_limit, args.device)
        return answer_all(job, answerer, table, inputs, args)
