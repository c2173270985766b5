"""Find bad videos: mmvidformer data check ANNOTATIONS --root FOLDER --workers 8.

Reads every video to its end, and prints what is wrong in the annotations by line. If videos of a
list are bad, writes <name>_bad.csv (line, path, reason) and <name>_clean.<extension>, the list
without them. The exit code is 0 if all is good, and 1 if not.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import Options, argument, option, parse_options, part
from mmvidformer.errors import UserError
from mmvidformer.storage.files import is_remote
from mmvidformer.tasks.names import describe_tasks


@dataclass(frozen=True)
class CheckOptions(Options):
    """Annotations, and how their videos are read."""

    ann_file: str = argument("annotation file, folder of videos, or video")
    task: str | None = option(f"what is annotated: {describe_tasks()}, or MODULE:CLASS")
    annotations: AnnotationOptions = part(AnnotationOptions)
    workers: int = option("number of processes", 4, type=positive)
    time_limit: float = option(
        "seconds without a new frame after which a file is given up",
        60.0,
        type=float,
        metavar="SECONDS",
    )
    out_dir: str | None = option(
        "folder to write to; default: that of the annotations", metavar="FOLDER"
    )

    def _check(self) -> None:
        for place in (self.ann_file, self.annotations.root or ""):
            if is_remote(place):
                what = f"local files are checked, got {place}"
                raise UserError(f"{what}; data shard checks what it packs")


def main(argv: Sequence[str] | None = None) -> int:
    """Check the files and return the exit code."""
    options = parse_options(CheckOptions, argv, __doc__)
    from mmvidformer.cli.data.checking import open_table, read_list
    from mmvidformer.data.lists import check_report, say_count, write_report
    from mmvidformer.data.sources import list_video_files
    from mmvidformer.tasks.checks import find_annotation_faults
    from mmvidformer.video.check_files import find_faults, read_to_end
    from mmvidformer.video.errors import with_suffix

    source, out_dir = Path(options.ann_file), options.out_dir or Path(options.ann_file).parent
    table, task = open_table(source, options.task, options.annotations)
    video_list = read_list(table) if not options.annotations.columns else None
    if video_list:
        check_report(source, out_dir)
    wrong: list[str] = []
    if table is None:
        paths = {path: Path(path) for path in list_video_files(source)}
    else:
        wrong, paths = find_annotation_faults(table, task)
    files = [(path,) for path in dict.fromkeys(map(str, paths.values()))]
    faults = find_faults(read_to_end, files, options.workers, options.time_limit)
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
