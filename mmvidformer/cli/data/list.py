"""List your own videos for MMAction2: mmvidformer data list FOLDER, EXPORT or FILE.csv.

FOLDER contains class/video.mp4, or train/class/video.mp4, val/... and test/... (validation, ...).
Writes train.txt, val.txt and test.txt (path and class) and classes.txt (names), and prints the
number of videos per class and split. FILE.csv has the columns video and label (classes, labels),
video and values (number), or video, start, end and label (frames, segments), and perhaps split; its
videos are split in the same way. EXPORT is a file of an annotation tool.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.options import Options, argument, flag, option, parse_options, part
from mmvidformer.errors import UserError
from mmvidformer.tasks.names import describe_tasks


@dataclass(frozen=True)
class ListOptions(Options):
    """Annotations, and how their videos are split."""

    source: Path = argument("folder of the classes, export of a tool, or csv file", type=Path)
    task: str | None = option(f"what is annotated: {describe_tasks()}, or MODULE:CLASS")
    annotations: AnnotationOptions = part(AnnotationOptions)
    out: Path | None = option(
        "folder of the lists (default: that of the videos)", type=Path, metavar="FOLDER"
    )
    val: float | None = option(
        "share for validation (default: 0.15; of folds none)", type=float, metavar="SHARE"
    )
    test: float | None = option("share for testing (default: 0.15)", type=float, metavar="SHARE")
    folds: int | None = option(
        "draw folds, of which each is the test once: OUT/fold_1, OUT/fold_2, ...", type=int
    )
    seed: int = option("random seed of the split", 0, type=int)
    force: bool = flag("overwrite existing lists")
    no_check: bool = flag("do not check annotations and videos")

    def _check(self) -> None:
        if self.folds and self.test is not None:
            raise UserError("--test is for one split; each of the --folds is the test once")


def main(argv: Sequence[str] | None = None) -> None:
    """Read, check, split, write and count."""
    options = parse_options(ListOptions, argv, __doc__)
    from mmvidformer.cli.data.listing import print_lists
    from mmvidformer.tasks.imports import name_task
    from mmvidformer.tasks.lists import fold_annotations, split_annotations
    from mmvidformer.tasks.table import find_task

    table = options.annotations.open(options.source)
    task = name_task(table, options.task)
    out = options.out or (options.source if options.source.is_dir() else options.source.parent)
    settings: dict[str, Any] = dict(
        seed=options.seed, force=options.force, check=not options.no_check
    )
    if options.val is not None:
        settings["val"] = options.val
    has_folds = "fold" in table.names and any(row["fold"] for row, _ in table.read("fold"))
    if options.folds or has_folds:
        if options.test is not None:
            raise UserError(f"{options.source} states folds, which are the tests; leave out --test")
        lists_of = fold_annotations(table, task, out, options.folds, **settings)
    else:
        if options.test is not None:
            settings["test"] = options.test
        lists_of = {"": split_annotations(table, task, out, **settings)}
    print_lists(lists_of, find_task(task))
    print(f"written to {out.resolve()}")
    if any(lists.delimiter == "\t" for lists in lists_of.values()):
        print('some paths have spaces: MMAction2\'s own tools need delimiter="\\t" in the datasets')
