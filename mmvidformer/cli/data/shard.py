"""Pack the videos of lists into shards: mmvidformer data shard LIST ... --out DIR_OR_URL.

Writes DIR/NAME for each list NAME.txt or NAME.csv: tar files in WebDataset's layout, and an index
with the rows of the task and the times of all frames. Training reads it with
`mmvidformer train CONFIG --shards DIR`. The exit status is 1 if some videos are bad: they are
printed, and count as bad in training, too.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.engine.arguments import positive
from mmvidformer.storage.files import join
from mmvidformer.tasks.shards import shard_list
from mmvidformer.tasks.table import DEFAULT, TASKS

MOST_PRINTED = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Write the shards and return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="+", type=Path, help="lists of videos")
    parser.add_argument("--out", required=True, help="folder, or address such as s3://BUCKET/DIR")
    text = f"what the lists annotate: {', '.join(TASKS)}, or MODULE:CLASS (default: classes)"
    parser.add_argument("--task", default=DEFAULT.name, help=text)
    parser.add_argument("--root", help="folder of the videos (default: that of each list)")
    parser.add_argument(
        "--videos-per-shard", type=positive, default=1000, help="videos in a tar file (1000)"
    )
    workers = min(4, os.cpu_count() or 1)
    parser.add_argument(
        "--workers", type=positive, default=workers, help=f"number of processes ({workers})"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing shards")
    args = vars(parser.parse_args(argv))
    lists, out = args.pop("lists"), args.pop("out")
    if len({path.stem for path in lists}) < len(lists):
        parser.error(f"lists must have different names, got {', '.join(map(str, lists))}")
    status = 0
    for file in lists:
        faults = shard_list(file, join(out, file.stem), **args)
        for path, fault in [*faults.items()][:MOST_PRINTED]:
            print(f"bad video: {path}: {fault}", file=sys.stderr)
        if faults:
            print(f"{file}: {len(faults)} videos are bad", file=sys.stderr)
            status = 1
        print(f"{file} is in {join(out, file.stem)}")
    return status
