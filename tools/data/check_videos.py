"""Find bad videos: python tools/data/check_videos.py ANNOTATIONS --root FOLDER --workers 8.

Reads every file of a list of videos or of folders of frames to its end. Writes <name>_bad.csv
(line, path, reason) and <name>_clean.<extension>, the list without the bad ones. The exit code is
0 if all files are good, and 1 if some are bad.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.datasets.decoding.check_files import (
    add_list_arguments,
    find_faults,
    read_entries,
    read_to_end,
    write_report,
)
from mmvidformer.datasets.decoding.errors import path_of
from mmvidformer.engine.errors import run_tool


def main(argv: Sequence[str] | None = None) -> int:
    """Check the files and return the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("ann_file", help="annotation file")
    add_list_arguments(parser, time_limit=60)
    parser.add_argument("--out-dir", help="folder to write to; default: that of the annotations")
    parser.add_argument("--filename-tmpl", default="img_{:05}.jpg", help="template of frame names")
    args = parser.parse_args(argv)
    entries = read_entries(args.ann_file, args.root, args.delimiter, args.filename_tmpl)
    infos = {path_of(info): info for _, info in entries}
    faults = find_faults(read_to_end, list(infos.values()), args.workers, args.time_limit)
    out_dir = args.out_dir or Path(args.ann_file).parent
    bad, clean = write_report(args.ann_file, out_dir, entries, faults)
    print(f"{len(faults)} of {len(infos)} files are bad: see {bad}, and {clean} without them")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(run_tool(main))
