"""Pack the videos of lists into shards: mmvidformer data shard LIST ... --out DIR_OR_URL.

Writes DIR/NAME for each list NAME.txt or NAME.csv, or each list of a config: tar files in
WebDataset's layout, and an index with the rows of the task and the times of all frames. Training
reads it with `mmvidformer train CONFIG --shards DIR`. After an interruption, run the same command
again to continue. The exit status is 1 if some videos are bad: they are printed, and count as bad
in training, too.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmvidformer.config import load_config
from mmvidformer.engine.arguments import positive
from mmvidformer.storage.files import join
from mmvidformer.tasks.shards import shard_config, shard_list
from mmvidformer.tasks.table import DEFAULT, describe_tasks

MOST_PRINTED = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Write the shards and return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="*", help="lists of videos, or addresses of them")
    parser.add_argument("--config", help="config whose lists are taken, of any datasets of videos")
    parser.add_argument(
        "--out", required=True, help="folder, or address such as s3://BUCKET/DIR", metavar="FOLDER"
    )
    text = f"what the lists annotate: {describe_tasks()}, or MODULE:CLASS (default: classes)"
    parser.add_argument("--task", default=DEFAULT.name, help=text)
    parser.add_argument(
        "--root",
        help="folder or address of the videos (default: that of each list)",
        metavar="FOLDER",
    )
    parser.add_argument(
        "--videos-per-shard",
        type=positive,
        default=1000,
        help="videos in a tar file (1000)",
        metavar="N",
    )
    workers = min(4, os.cpu_count() or 1)
    parser.add_argument(
        "--workers",
        type=positive,
        default=workers,
        help=f"number of processes ({workers})",
        metavar="N",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="delete shards of an earlier list first, and overwrite files",
    )
    args = parser.parse_args(argv)
    options = dict(videos_per_shard=args.videos_per_shard, workers=args.workers, force=args.force)
    stems = {Path(file).stem for file in args.lists}
    if len(stems) < len(args.lists):
        parser.error(f"lists must have different names, got {', '.join(args.lists)}")
    if bool(args.lists) == bool(args.config):
        parser.error("give lists, or --config")
    if args.config:
        faults = shard_config(load_config(args.config), args.out, **options)
        statuses = [_report(file, args.out, bad) for file, bad in faults.items()]
        return max(statuses)
    status = 0
    for file in args.lists:
        out = join(args.out, Path(file).stem)
        bad = shard_list(file, out, args.task, args.root, **options)
        status = max(status, _report(file, args.out, bad))
    return status


def _report(file: str, out: str, faults: Mapping[str, str]) -> int:
    """Print where a list is, and its bad videos; returns 1 if there are any."""
    for path, fault in [*faults.items()][:MOST_PRINTED]:
        print(f"bad video: {path}: {fault}", file=sys.stderr)
    if faults:
        print(f"{file}: {len(faults)} videos are bad", file=sys.stderr)
    print(f"{file} is in {join(out, Path(file).stem)}")
    return int(bool(faults))
