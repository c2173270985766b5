"""Find bad videos: python tools/data/check_videos.py ANNOTATIONS --root FOLDER --workers 8.

Reads every file that the annotation file names to its end: a list of videos, of folders of frames,
or the csv of EPIC-Kitchens-100. Writes <name>_bad.csv (line, path, reason) and <name>_clean.<ext>,
the annotation file without the bad ones. Exit code 0 if all are good, 1 if some are bad.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mmvidformer.datasets.decoding.check_files import read_entries, scan, write_report
from mmvidformer.datasets.decoding.faults import path_of
from mmvidformer.engine.launch import run_tool


def main(argv: Sequence[str] | None = None) -> int:
    """Check as the command line says; gives the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("ann_file", help="annotation file")
    parser.add_argument("--root", default="", help="folder of the videos (the data_prefix)")
    parser.add_argument("--workers", type=int, default=4, help="processes")
    parser.add_argument("--time-limit", type=float, default=60, help="seconds for one file")
    parser.add_argument("--out-dir", help="where to write; default: beside the annotation file")
    parser.add_argument("--delimiter", default=" ", help="between the columns of a list")
    parser.add_argument("--filename-tmpl", default="img_{:05}.jpg", help="names of frames")
    parser.add_argument(
        "--name",
        default="{participant_id}/videos/{video_id}.MP4",
        help="path of a video by the columns of a csv file",
    )
    args = parser.parse_args(argv)
    header, entries = read_entries(
        args.ann_file, args.root, args.delimiter, args.filename_tmpl, args.name
    )
    infos = {path_of(entry.info): entry.info for entry in entries}
    results = scan(infos.values(), args.workers, args.time_limit)
    bar = tqdm(results, total=len(infos), unit="file", disable=None)
    faults = {}
    for path, fault in bar:
        if fault is not None:
            faults[path] = fault
            bar.set_postfix(bad=len(faults))
    out_dir = args.out_dir or Path(args.ann_file).parent
    bad, clean = write_report(args.ann_file, out_dir, header, entries, faults)
    print(f"{len(faults)} of {len(infos)} files are bad; see {bad}, and {clean} without them")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(run_tool(main))
