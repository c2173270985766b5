"""Pack the videos of lists into shards: mmvidformer data shard LIST ... --out DIR_OR_URL.

Writes DIR/NAME for each list NAME.txt or NAME.csv, or each list of a config: tar files in
WebDataset's layout, and an index with the rows of the task and the times of all frames. Training
reads it with `mmvidformer train CONFIG --shards DIR`. After an interruption, run the same command
again to continue. The exit status is 1 if some videos are bad: they are printed, and count as bad
in training, too.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import Options, argument, flag, option, parse_options
from mmvidformer.errors import UserError
from mmvidformer.storage.files import join
from mmvidformer.tasks.names import DEFAULT_NAME, describe_tasks

MOST_PRINTED = 20


@dataclass(frozen=True)
class ShardOptions(Options):
    """Lists, and the shards of their videos."""

    lists: Sequence[str] = argument("lists of videos, or addresses of them", nargs="*")
    config: str | None = option("config whose lists are taken, of any datasets of videos")
    out: str = option("folder, or address such as s3://BUCKET/DIR", required=True, metavar="FOLDER")
    task: str = option(
        f"what the lists annotate: {describe_tasks()}, or MODULE:CLASS", DEFAULT_NAME
    )
    root: str | None = option(
        "folder or address of the videos (default: that of each list)", metavar="FOLDER"
    )
    videos_per_shard: int = option("videos in a tar file", 1000, type=positive)
    workers: int = option("number of processes", min(4, os.cpu_count() or 1), type=positive)
    force: bool = flag("delete shards of an earlier list first, and overwrite files")

    def _check(self) -> None:
        if len({Path(file).stem for file in self.lists}) < len(self.lists):
            raise UserError(f"lists must have different names, got {', '.join(self.lists)}")
        if bool(self.lists) == bool(self.config):
            raise UserError("give lists, or --config")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the shards and return the exit status."""
    options = parse_options(ShardOptions, argv, __doc__)
    from mmvidformer.config import load_config
    from mmvidformer.tasks.shards import shard_config, shard_list

    form = dict(
        videos_per_shard=options.videos_per_shard, workers=options.workers, force=options.force
    )
    if options.config:
        faults = shard_config(load_config(options.config), options.out, **form)
        statuses = [_report(file, options.out, bad) for file, bad in faults.items()]
        return max(statuses)
    status = 0
    for file in options.lists:
        out = join(options.out, Path(file).stem)
        bad = shard_list(file, out, options.task, options.root, **form)
        status = max(status, _report(file, options.out, bad))
    return status


def _report(file: str, out: str, faults: Mapping[str, str]) -> int:
    """Print where a list is, and its bad videos; returns 1 if there are any."""
    for path, fault in [*faults.items()][:MOST_PRINTED]:
        print(f"bad video: {path}: {fault}", file=sys.stderr)
    if faults:
        print(f"{file}: {len(faults)} videos are bad", file=sys.stderr)
    print(f"{file} is in {join(out, Path(file).stem)}")
    return int(bool(faults))
