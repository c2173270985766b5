"""List your own videos for MMAction2: mmvidformer data list FOLDER, EXPORT or FILE.csv.

FOLDER contains class/video.mp4, or train/class/video.mp4, val/... and test/... (validation, ...).
Writes train.txt, val.txt and test.txt (path and class) and classes.txt (names), and prints the
number of videos per class and split. FILE.csv has the columns video and label (classes, labels),
video and values (number), or video, start, end and label (frames, segments), and perhaps split; its
videos are split in the same way. EXPORT is a file of an annotation tool.
"""

import unicodedata
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.options import add_options, read_options
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import name_task
from mmvidformer.tasks.lists import fold_annotations, split_annotations
from mmvidformer.tasks.table import describe_tasks, find_task

MOST_PRINTED = 20


def main(argv: Sequence[str] | None = None) -> None:
    """Read, check, split, write and count."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "source", type=Path, help="folder of the classes, export of a tool, or csv file"
    )
    names = describe_tasks()
    parser.add_argument("--task", help=f"what is annotated: {names}, or MODULE:CLASS")
    add_options(parser, AnnotationOptions)
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the lists (default: that of the videos)",
        metavar="FOLDER",
    )
    parser.add_argument(
        "--val",
        type=float,
        help="share for validation (default: 0.15; of folds none)",
        metavar="SHARE",
    )
    parser.add_argument(
        "--test", type=float, help="share for testing (default: 0.15)", metavar="SHARE"
    )
    parser.add_argument(
        "--folds",
        type=int,
        help="draw folds, of which each is the test once: OUT/fold_1, OUT/fold_2, ...",
        metavar="N",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed of the split (default: 0)", metavar="N"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing lists")
    parser.add_argument(
        "--no-check", action="store_true", help="do not check annotations and videos"
    )
    args = parser.parse_args(argv)
    if args.folds and args.test is not None:
        parser.error("--test is for one split; each of the --folds is the test once")
    _list_annotations(args)


def _list_annotations(args: Namespace) -> None:
    """Split an annotation file, or make its folds, and count."""
    table = read_options(AnnotationOptions, args).open(args.source)
    task = name_task(table, args.task)
    out = args.out or (args.source if args.source.is_dir() else args.source.parent)
    settings: dict[str, Any] = dict(seed=args.seed, force=args.force, check=not args.no_check)
    if args.val is not None:
        settings["val"] = args.val
    has_folds = "fold" in table.names and any(row["fold"] for row, _ in table.read("fold"))
    if args.folds or has_folds:
        if args.test is not None:
            raise UserError(f"{args.source} states folds, which are the tests; leave out --test")
        lists_of = fold_annotations(table, task, out, args.folds, **settings)
    else:
        if args.test is not None:
            settings["test"] = args.test
        lists_of = {"": split_annotations(table, task, out, **settings)}
    for fold, lists in lists_of.items():
        if not fold and lists.facts["train"].sizes and find_task(task).size_unit == "videos":
            _print_classes(lists)
        elif lists is next(iter(lists_of.values())):
            dots = ", ..." if len(lists.classes) > MOST_PRINTED else ""
            print(f"{', '.join(lists.classes[:MOST_PRINTED])}{dots}")
        for name, other in find_similar(lists.classes).items():
            is_same = unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", other)
            names = [ascii(word) if is_same else repr(word) for word in (name, other)]
            print(f"warning: the class {names[0]} is spelled almost as {names[1]}")
        counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
        print(f"fold {fold}: {counts}" if fold else f"{find_task(task).sample_unit}: {counts}")
        for split, word in (("val", "validation"), ("test", "testing")):
            if not lists.counts[split] and not fold:
                print(f"no video is for {word}")
    print(f"written to {out.resolve()}")
    if any(lists.delimiter == "\t" for lists in lists_of.values()):
        print('some paths have spaces: MMAction2\'s own tools need delimiter="\\t" in the datasets')


def find_similar(classes: Sequence[str]) -> dict[str, str]:
    """Return classes that look as an earlier one does, which they name.

    Capitals, blanks, invisible letters and other spellings of a letter in Unicode do not count.
    """
    first: dict[str, str] = {}
    similar = {}
    for name in classes:
        letters = unicodedata.normalize("NFKC", name).casefold()
        seen = "".join(letter for letter in letters if unicodedata.category(letter)[0] not in "CZ")
        if (other := first.setdefault(seen, name)) != name:
            similar[name] = other
    return similar


def _print_classes(lists: VideoLists) -> None:
    """Print how many videos of each class each split has, and which classes are small."""
    counts = {}
    for number, name in enumerate(lists.classes):
        counts[name] = [int(lists.facts[split].sizes[number]) for split in SPLITS]
    width = max(map(len, [*counts, "class"]))
    print(f"{'class':{width}}  train    val   test")
    for name, row in {**counts, "all": map(sum, zip(*counts.values(), strict=True))}.items():
        print(f"{name:{width}} " + "".join(f"{count:6} " for count in row).rstrip())
    for name, (train, val, test) in counts.items():
        if not train or train + val + test < 3:
            counted = f"{train} training, {val} validation, {test} test videos"
            print(f"class {name!r} is small: {counted}")
