"""Lists of annotated videos: checked, split or in folds, and written."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mmvidformer.data.list_folders import (
    CLASSES,
    DURATIONS,
    GROUPS,
    LONG,
    NO_TEXT,
    VideoLists,
    check_absent,
    fold_folders,
    is_text,
)
from mmvidformer.data.lists import MOST_FAULTS, say_count
from mmvidformer.data.splits import (
    SHARE,
    SPLITS,
    check_shares,
    draw_folds,
    draw_splits,
    draw_splits_of_folds,
)
from mmvidformer.data.tables import Table
from mmvidformer.data.text import read_text
from mmvidformer.errors import FileThere, UserError
from mmvidformer.storage.atomic import write_together
from mmvidformer.storage.targets import identity_of
from mmvidformer.tasks.annotated import write_csv
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.checks import check_videos
from mmvidformer.tasks.classification import Classification
from mmvidformer.tasks.imports import say_left_out, select_rows
from mmvidformer.tasks.reading import Annotations
from mmvidformer.tasks.table import find_task
from mmvidformer.video.check_files import read_files, read_to_end


def read_task_lists(folder: str | Path, task: str) -> VideoLists:
    """Read the lists of a task, by its name (``Task.read_lists``)."""
    return find_task(task).read_lists(folder)


def split_annotations(
    table: Table,
    task: str,
    folder: str | Path,
    val: float = SHARE,
    test: float = SHARE,
    seed: int = 0,
    force: bool = False,
    check: bool = True,
) -> VideoLists:
    """Split annotations by video, and write a list per split.

    The column ``split`` (train, val or test), if there is one, states the split; else it is drawn.
    Videos of one ``group``, if there is such a column, are in one split.
    Paths of the lists are relative to ``folder``.

    Args:
        table: What ``open_annotations`` returns, of a file with ``classes.txt`` beside it if the
            task has such a file, and classes are numbers.
        task: Name of a task, as in ``find_task``.
        folder: Folder to write to.
        val: Share of the videos for validation.
        test: Share for testing.
        seed: Random seed of the draw.
        force: Whether to overwrite lists, but never the annotations.
        check: Whether to look for all videos, and into them: bad ones are left out.

    Raises:
        FileExistsError: If there are lists, and not ``force``, or the annotations would be
            overwritten.
        UserError: If a row is wrong; names file and line. If folds are stated.
    """
    root, found_task = Path(folder).resolve(), find_task(task)
    _check_targets(table.file, root, found_task, force)
    annotations = _read(table, found_task, check)
    if any(annotations.folds.values()):
        raise UserError(f"{table.file} states folds: finetune with --folds, or one as --fold NAME")
    splits = _draw_splits(annotations, found_task, val, test, seed)
    return _write(annotations, found_task, splits, root)


def fold_annotations(
    table: Table,
    task: str,
    folder: str | Path,
    count: int | None = None,
    val: float = 0.0,
    seed: int = 0,
    force: bool = False,
    check: bool = True,
) -> dict[str, VideoLists]:
    """Write the lists of each fold to a folder of its own, ``FOLDER/fold_NAME``; return them.

    The column ``fold`` states of which fold a video is the test; without one, it is in all
    trainings. If there is no such column, ``count`` folds are drawn. Videos of a group are in one
    fold.

    Args:
        table: See ``split_annotations``.
        task: Likewise.
        folder: Folder of the folders.
        count: Number of folds to draw; None if the column states them.
        val: Share for validation, of the videos that a fold does not test.
        seed: Likewise.
        force: Likewise.
        check: Likewise.

    Raises:
        FileExistsError: As ``split_annotations``, or if there are other folds.
        UserError: Likewise, or if there are fewer groups than folds, or less than two folds.
    """
    root, found_task = Path(folder).resolve(), find_task(task)
    annotations = _read(table, found_task, check)
    videos = sorted(annotations.videos)
    labels, groups = _strata(annotations, found_task, videos)
    names = [annotations.folds[video] for video in videos]
    if any(annotations.splits.values()):
        raise UserError(f"{table.file} states splits, and folds; leave one out")
    if any(names) and count:
        how = f"data list needs no --folds, finetune --folds without {count}"
        raise UserError(f"{table.file} has a column fold already; {how}")
    if count:
        names = [str(fold + 1) for fold in draw_folds(labels, groups, count, seed)]
    by_class = _has_one_class(found_task)
    splits_of = draw_splits_of_folds(labels, groups, names, val, seed, by_class)
    roots = fold_folders(root, splits_of)
    for fold_root in roots.values():
        _check_targets(table.file, fold_root, found_task, force)
    lists = {}
    for name, splits in splits_of.items():
        lists[name] = _write(
            annotations, found_task, dict(zip(videos, splits, strict=True)), roots[name]
        )
    return lists


def _read(table: Table, task: Task, check: bool) -> Annotations:
    """Read annotations without faults, and say what is left out."""
    classes: list[str] = []
    if task.has_classes_file and (table.file.parent / CLASSES).is_file():
        classes = read_text(table.file.parent / CLASSES).splitlines()
    annotations = task.read(select_rows(table, task.nouns), classes)
    if check:
        _leave_out_bad(task, annotations)
        _check(task, annotations)
    _say_left_out(annotations)
    return annotations.check()


def _write(
    annotations: Annotations, task: Task, splits: Mapping[str, str], root: Path
) -> VideoLists:
    """Write the lists of the splits, the groups of the videos, and how long they are."""
    if "train" not in splits.values():
        raise UserError(f"{annotations.file} has no video for training")
    stated, folder = annotations.table.folder.absolute(), annotations.table.folder.resolve()
    paths = {}
    for video in splits:
        path = Path(video)
        if path.is_relative_to(stated):  # perhaps by a link, which ``folder`` leads to
            path = path.relative_to(stated)
        paths[video] = folder / path
    for video, path in paths.items():
        if path.is_relative_to(root):
            paths[video] = path.relative_to(root)
        if not is_text(str(path)):
            raise UserError(f"{str(path)!r}: {NO_TEXT}")
    durations = {video: f"{seconds:.3f}" for video, seconds in annotations.durations.items()}
    has_long = max(annotations.durations.values(), default=0.0) > LONG
    tables = [
        (GROUPS, "group", annotations.groups if any(annotations.groups.values()) else {}),
        (DURATIONS, "seconds", durations if has_long and not task.has_seconds else {}),
    ]
    with write_together(root) as folder:
        task.write_lists(annotations, splits, folder, paths)
        for name, column, values in tables:
            rows = [(paths[video].as_posix(), values[video]) for video in splits if video in values]
            if rows:
                write_csv(folder / name, [("video", column), *rows])
    for name, _, values in tables:
        if not values:  # of the lists that were replaced
            (root / name).unlink(missing_ok=True)
    return task.read_lists(root)


def _check_targets(file: Path, root: Path, task: Task, force: bool) -> None:
    """Raise a ``FileExistsError`` if lists are there, or one would overwrite the annotations."""
    names = [*(f"{split}.{task.suffix}" for split in SPLITS), GROUPS, DURATIONS]
    if not task.has_classes_file:
        names.append(CLASSES)
    if identity_of(file) in [identity_of(root / name) for name in names]:
        raise FileThere(f"a list would overwrite {file}; rename it or give --out")
    if not force:
        check_absent(root, names)


def _say_left_out(annotations: Annotations) -> None:
    """Print which videos are left out, and which rows repeat others."""
    skipped, repeated = annotations.table.skipped, annotations.repeated
    for name, reason in islice(skipped.items(), MOST_FAULTS):
        print(f"skipped {name}: {reason}")
    if len(skipped) > MOST_FAULTS:
        print(f"skipped {len(skipped) - MOST_FAULTS} more")
    if annotations.table.left_out:
        print(f"left out: {say_left_out(annotations.table)}")
    if repeated:
        shown = [*repeated[:MOST_FAULTS], *["..."] * (len(repeated) > MOST_FAULTS)]
        print(f"left out: {say_count(len(repeated), 'repeated row')}:", *shown, sep="\n")


def _leave_out_bad(task: Task, annotations: Annotations) -> None:
    """Leave out videos whose first frame cannot be read; other mistakes come first."""
    if annotations.faults:
        return
    with suppress(UserError):  # two files have one name, which ``check_videos`` says
        paths = task.video_paths(annotations, annotations.table.folder)
        videos = {str(path): video for video, path in paths.items() if path.is_file()}
        files = [(path,) for path in videos]
        workers = min(4, os.cpu_count() or 1)
        read = read_files(partial(read_to_end, first_only=True), files, workers)
        annotations.leave_out({videos[path]: fault for path, fault in read.faults.items()})
        annotations.durations = {videos[path]: sec for path, sec in read.values.items() if sec}


def _check(task: Task, annotations: Annotations) -> None:
    """Raise a ``UserError`` that names the faults of annotations and of their videos."""
    video_faults, _ = check_videos(task, annotations)
    faults = annotations.faults + video_faults
    if not faults:
        return
    shown = faults[:MOST_FAULTS]
    if len(faults) > MOST_FAULTS:
        shown.append(f"and {len(faults) - MOST_FAULTS} more")
    many = f"{annotations.file} has {say_count(len(faults), 'fault')}"
    raise UserError("\n".join([f"{many}; --no-check does not look into the videos:", *shown]))


def _draw_splits(
    annotations: Annotations, task: Task, val: float, test: float, seed: int
) -> dict[str, str]:
    """Return the split of each video: that which is stated, else one that is drawn."""
    check_shares(val, test)
    stated = {video: annotations.splits[video] for video in sorted(annotations.splits)}
    left = [video for video, split in stated.items() if not split]
    labels, groups = _strata(annotations, task, left)
    drawn = draw_splits(labels, groups, val, test, seed, _has_one_class(task))
    return stated | dict(zip(left, drawn, strict=True))


def _strata(
    annotations: Annotations, task: Task, videos: Sequence[str]
) -> tuple[list[list[Any]], list[tuple[str, str]]]:
    """Return the classes and the group of each video; a video without a group is its own."""
    classes = task.classes_of(annotations)
    groups = []
    for video in videos:
        group = annotations.groups[video]
        groups.append(("group", group) if group else ("video", video))
    return [classes[video] for video in videos], groups


def _has_one_class(task: Task) -> bool:
    return isinstance(task, Classification) and task.has_one_class
