"""Options of the commands that answer for many videos."""

from argparse import ArgumentParser
from dataclasses import dataclass

from mmvidformer.engine.arguments import (
    not_negative,
    positive,
    positive_number,
)
from mmvidformer.engine.model_options import ModelOptions
from mmvidformer.engine.options import add_options, option


@dataclass(frozen=True)
class BulkOptions(ModelOptions):
    """A model, its videos, and how they are answered; what has no help is read by hand."""

    input: str = ""
    out: str = ""
    batch: int = option("videos that the model sees at once", 4, False, type=positive, metavar="N")
    part: int = option(
        "most videos of a Parquet file, which is written as a whole, and each minute",
        256,
        False,
        type=positive,
        metavar="N",
    )
    workers: int | None = option(
        "processes that read videos for a model (default: 4, at most the number of cores; 1 on Ray "
        "without GPUs); 0: the model's process, which a video can then end",
        None,
        False,
        type=not_negative,
        metavar="N",
    )
    time_limit: float = option(
        "seconds without a new frame, after which a video counts as bad",
        300.0,
        False,
        type=positive_number,
        metavar="S",
    )
    retry: bool = option(
        "try videos again that failed in an earlier run", False, False, action="store_true"
    )
    ray: str | None = option(
        "run on this cluster of Ray, such as auto or ray://HOST:10001; local starts one here",
        None,
        False,
        metavar="ADDRESS",
    )
    procs: int | None = option(
        "models on Ray (default: one for each GPU; without GPUs, for each core)",
        None,
        False,
        type=positive,
        metavar="N",
    )


def add_bulk_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``BulkOptions``."""
    parser.add_argument("config", metavar="MODEL", help="config file, or name of a shipped config")
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        nargs="?",
        help="file, published://NAME, hf://ORG/NAME or URL (default: the published one of the "
        "config)",
    )
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="folder of videos, list of MMAction2 (.txt), csv file with a column video, folder of "
        "shards, or a video; or an address of them, such as s3://BUCKET/FOLDER",
    )
    parser.add_argument(
        "--out", required=True, help="folder or address of the results", metavar="FOLDER"
    )
    add_options(parser, ModelOptions)
    add_options(parser, BulkOptions, "many videos", without=ModelOptions)
