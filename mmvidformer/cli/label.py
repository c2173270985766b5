"""Label many videos: mmvidformer label MODEL [CHECKPOINT] INPUT --out DIR.

Writes Parquet files: a row for each video, with --window for each window; steps, segments, boxes or
values by task. Bad videos are in _failed.csv. After an interruption, run the same command again to
continue. With --ray it runs on a cluster.

Exit status: 0, or 1 if a video failed.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mmvidformer.apis.bulk.command import answer_all, find_bulk_model
from mmvidformer.apis.bulk.labels import Labeler
from mmvidformer.apis.bulk.parquet import ParquetTable
from mmvidformer.apis.bulk.run import Job
from mmvidformer.apis.bulk.saving import locked
from mmvidformer.apis.bulk.settings import hash_text, make_writable, row_settings
from mmvidformer.apis.persons import PERSONS
from mmvidformer.data.sources import list_inputs
from mmvidformer.engine.arguments import (
    add_bulk_arguments,
    add_classes_argument,
    add_cuts_argument,
    add_person_arguments,
    inexact_options,
    positive_number,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_bulk_arguments(parser)
    add_classes_argument(parser)
    answers = parser.add_argument_group("answers")
    answers.add_argument(
        "--window",
        type=positive_number,
        help="seconds of a window (default: whole videos)",
        metavar="SECONDS",
    )
    answers.add_argument(
        "--stride",
        type=positive_number,
        help="seconds between windows (default: half)",
        metavar="SECONDS",
    )
    add_cuts_argument(answers)
    answers.add_argument(
        "--min-score",
        type=float,
        help="least score of segments that a model finds (default: 0.3)",
        metavar="SCORE",
    )
    answers.add_argument(
        "--boxes",
        type=Path,
        help="csv in AVA's format, or the word persons, to detect them (default: persons)",
        metavar="FILE",
    )
    add_person_arguments(answers)
    args = parser.parse_intermixed_args(argv)
    if args.cuts and args.window is None and args.stride is None and not args.track:
        parser.error(f"--cuts needs --window or --track, got {args.cuts}")
    if str(args.boxes) == PERSONS:
        args.boxes = None
    inputs = list_inputs(args.input)
    cfg, checkpoint = find_bulk_model(args, inputs)
    names = ("window", "stride", "cuts", "min_score", "boxes", "rate", "track")
    options = {name: getattr(args, name) for name in names}
    inexact = inexact_options(args)
    if args.boxes is not None:
        options["videos"] = inputs.names
    load = partial(Labeler, cfg, checkpoint, names=args.classes, **options, **inexact)
    answerer = load(device="cpu" if args.ray else args.device)
    settings = dict(command="label", **row_settings(args, cfg, checkpoint, inputs))
    settings["classes"] = hash_text(repr(answerer.recognizer.names))  # whatever names them
    make_writable(args.out)
    with locked(args.out):
        table = ParquetTable(args.out, answerer.columns, settings, inputs.names)
        job = Job(load, args.batch, args.workers, args.time_limit, args.device)
        return answer_all(job, answerer, table, inputs, args)
