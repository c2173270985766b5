"""Find bad videos: mmvidformer data check ANNOTATIONS --root FOLDER --workers 8.

Reads every video of a list to its end, and prints which lines name a video again. If some are bad,
writes <name>_bad.csv (line, path, reason) and <name>_clean.<extension>, the list without them. Of
annotations of other tasks and tools it prints what is wrong by line, and of a folder or a
video which videos are bad. The exit code is 0 if all is good, and 1 if not.
"""

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.data.folders import is_video
from mmvidformer.data.importers import find_format
from mmvidformer.data.lists import (
    check_report,
    find_repeated,
    read_list,
    say_count,
    write_report,
)
from mmvidformer.data.sources import list_video_files
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import add_options, read_options
from mmvidformer.storage.files import is_remote
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.imports import guess_task, say_left_out, select_rows
from mmvidformer.tasks.table import describe_tasks, find_task, spell_task
from mmvidformer.video.check_files import find_faults, read_to_end

LIMIT = "seconds without a new frame after which a file is given up (default: 60)"
MOST_REPEATED = 20  # lines that are printed


def main(argv: Sequence[str] | None = None) -> int:
    """Check the files and return the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("ann_file", help="annotation file, folder of videos, or video")
    names = describe_tasks()
    parser.add_argument("--task", help=f"what is annotated: {names}, or MODULE:CLASS")
    add_options(parser, AnnotationOptions)
    parser.add_argument(
        "--workers", type=positive, default=4, help="number of processes (default: 4)", metavar="N"
    )
    parser.add_argument("--time-limit", type=float, default=60, help=LIMIT, metavar="SECONDS")
    parser.add_argument(
        "--out-dir", help="folder to write to; default: that of the annotations", metavar="FOLDER"
    )
    args = parser.parse_args(argv)
    for place in (args.ann_file, str(args.root or "")):
        if is_remote(place):
            parser.error(f"local files are checked, got {place}; data shard checks what it packs")
    source = Path(args.ann_file)
    has_videos = is_video(args.ann_file)
    tool = args.format or (None if has_videos else find_format(source))
    if tool not in (None, "mmaction2") or source.suffix.lower() != ".txt":
        if has_videos or tool == "class-folders":
            wrong, videos = [], list_video_files(source)
        else:
            table = read_options(AnnotationOptions, args).open(source)
            task = find_task(args.task) if args.task else guess_task(table)
            table = select_rows(table, task.nouns)
            if table.left_out:
                print(f"{args.ann_file}: left out: {say_left_out(table)}")
            wrong, videos = find_annotation_faults(table, spell_task(task))
        files = [(str(path),) for path in videos]
        faults = find_faults(read_to_end, files, args.workers, args.time_limit)
        wrong += [f"{path}: {why}" for path, why in faults.items()]
        if wrong:
            print("\n".join([*wrong, f"{args.ann_file}: {say_count(len(wrong), 'fault')}"]))
        else:
            print(f"{args.ann_file}: {_all_good(len(files))}")
        return int(bool(wrong))
    out_dir, root = args.out_dir or source.parent, args.root or ""
    check_report(args.ann_file, out_dir)
    entries = read_list(args.ann_file)
    repeated = list(find_repeated(entries, args.ann_file, root))
    print(*repeated[:MOST_REPEATED], sep="\n", end="\n" * bool(repeated))
    if len(repeated) > MOST_REPEATED:
        print(f"and {len(repeated) - MOST_REPEATED} more")
    lines = [(os.path.join(root, path), text) for text, path, _ in entries]
    paths = dict.fromkeys(path for path, _ in lines)
    files = [(path,) for path in paths]
    faults = find_faults(read_to_end, files, args.workers, args.time_limit)
    if not faults:
        print(f"{args.ann_file}: {_all_good(len(files))}")
        return int(bool(repeated))
    bad, clean = write_report(args.ann_file, out_dir, lines, faults)
    print(f"{len(faults)} of {len(files)} files are bad: see {bad}, and {clean} without them")
    return 1


def _all_good(count: int) -> str:
    return "its file is good" if count == 1 else f"all {count} files are good"
