"""Find bad videos: mmvidformer data check ANNOTATIONS --root FOLDER --workers 8.

Reads every video to its end, and prints what is wrong in the annotations by line. If videos of a
list are bad, writes <name>_bad.csv (line, path, reason) and <name>_clean.<extension>, the list
without them. The exit code is 0 if all is good, and 1 if not.
"""

import errno
import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mmvidformer.data.folders import is_video
from mmvidformer.data.importers import find_format
from mmvidformer.data.importers.mmaction import open_list
from mmvidformer.data.lists import (
    VideoList,
    check_report,
    read_video_list,
    say_count,
    write_report,
)
from mmvidformer.data.sources import list_video_files
from mmvidformer.data.tables import Table
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import add_options, read_options
from mmvidformer.errors import UserError
from mmvidformer.storage.files import is_remote
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.imports import guess_task, say_left_out, select_rows
from mmvidformer.tasks.table import describe_tasks, find_task, spell_task
from mmvidformer.video.check_files import find_faults, read_to_end
from mmvidformer.video.errors import with_suffix

LIMIT = "seconds without a new frame after which a file is given up (default: 60)"


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
    source, out_dir = Path(args.ann_file), args.out_dir or Path(args.ann_file).parent
    table, task = _open_table(args, source)
    video_list = _read_list(table) if not args.columns else None
    if video_list:
        check_report(source, out_dir)
    wrong: list[str] = []
    if table is None:
        paths = {path: Path(path) for path in list_video_files(source)}
    else:
        wrong, paths = find_annotation_faults(table, task)
    files = [(path,) for path in dict.fromkeys(map(str, paths.values()))]
    faults = find_faults(read_to_end, files, args.workers, args.time_limit)
    wrong += [f"{path}: {why}" for path, why in faults.items()]
    if not wrong:
        good = "its file is good" if len(files) == 1 else f"all {len(files)} files are good"
        print(f"{source}: {good}")
        return 0
    print(*wrong, f"{source}: {say_count(len(wrong), 'fault')}", sep="\n")
    if table is None or video_list is None:
        return 1
    lines = []
    for line in video_list.lines:
        name = table.local_path(line.path)
        path = str(paths.get(name, with_suffix(str(table.folder / name))))
        lines.append((path, line.text))
        if not os.path.isfile(path):
            faults[path] = os.strerror(errno.ENOENT)
    if faults:
        bad, clean = write_report(source, out_dir, lines, faults, header=video_list.header)
        print(f"{len(faults)} files are bad: see {bad}, and {clean} without them")
    return 1


def _open_table(args: Namespace, source: Path) -> tuple[Table | None, str]:
    """Return the annotations and the name of their task; None of a video, or a folder of videos."""
    if is_video(str(source)):
        return None, ""
    tool = args.format or find_format(source)
    if tool == "class-folders":
        return None, ""
    if tool in (None, "mmaction2") and source.suffix.lower() == ".txt":
        table = open_list(source, Path(args.root or source.parent))
        one_label = len({place for _, place in table.rows}) == len(table.rows)
        has_labels = all(label for (_, label), _ in table.rows)
        return table, args.task or ("classes" if one_label and has_labels else "labels")
    table = read_options(AnnotationOptions, args).open(source)
    task = find_task(args.task) if args.task else guess_task(table)
    table = select_rows(table, task.nouns)
    if table.left_out:
        print(f"{source}: left out: {say_left_out(table)}")
    return table, spell_task(task)


def _read_list(table: Table | None) -> VideoList | None:
    """Return the list that annotations are, of which one without bad videos can be written."""
    if table is None or table.importer or "video" not in table.names:
        return None
    with suppress(UserError):  # a row without a video, which is a fault of the annotations
        return read_video_list(table.file)
    return None
