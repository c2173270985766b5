"""Lists of your videos for other answers than one class."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from mmvidformer.data.lists import say_count
from mmvidformer.data.own_videos import (
    CLASSES,
    FILES,
    MOST_FAULTS,
    NO_TEXT,
    SPLITS,
    VideoLists,
    check_absent,
    check_shares,
    draw_splits,
    is_text,
)
from mmvidformer.data.tables import Table
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError
from mmvidformer.storage.targets import identity_of
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.checks import check_videos
from mmvidformer.tasks.imports import say_left_out, select_rows
from mmvidformer.tasks.reading import Annotations
from mmvidformer.tasks.table import find_task


def read_task_lists(folder: str | Path, task: str) -> VideoLists:
    """Read the lists of a task, by its name (``Task.read_lists``)."""
    return find_task(task).read_lists(folder)


def split_annotations(
    table: Table,
    task: str,
    folder: str | Path,
    val: float = 0.15,
    test: float = 0.15,
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
        check: Whether to look into the videos of tasks with seconds, and for all videos.

    Raises:
        FileExistsError: If there are lists, and not ``force``, or the annotations would be
            overwritten.
        UserError: If a row is wrong; names file and line.
    """
    root, found_task = Path(folder).resolve(), find_task(task)
    _check_targets(table.file, root, found_task, force)
    classes: list[str] = []
    if found_task.has_classes_file and (table.file.parent / CLASSES).is_file():
        classes = read_text(table.file.parent / CLASSES).splitlines()
    annotations = found_task.read(select_rows(table, found_task), classes)
    if check:
        _check(found_task, annotations)
    _say_left_out(annotations)
    splits = _draw_splits(annotations.check(), val, test, seed)
    paths = {video: table.folder.resolve() / video for video in splits}
    for video, path in paths.items():
        if path.is_relative_to(root):
            paths[video] = path.relative_to(root)
        if not is_text(str(path)):
            raise UserError(f"{str(path)!r}: {NO_TEXT}")
    found_task.write_lists(annotations, splits, root, paths)
    return found_task.read_lists(root)


def _check_targets(file: Path, root: Path, task: Task, force: bool) -> None:
    """Raise a ``FileExistsError`` if lists are there, or one would overwrite the annotations."""
    names = [f"{split}.csv" for split in SPLITS]
    if not task.has_classes_file:
        names += FILES
    if identity_of(file) in [identity_of(root / name) for name in names]:
        raise FileExistsError(f"a list would overwrite {file}; rename it or give --out")
    if not force:
        check_absent(root, names)


def _say_left_out(annotations: Annotations) -> None:
    """Print which videos have no file, and which rows repeat others."""
    missing, repeated = annotations.table.missing, annotations.repeated
    if missing:
        count = len(missing) + len(annotations.videos)
        shown = [*missing[:MOST_FAULTS], *["..."] * (len(missing) > MOST_FAULTS)]
        print(f"left out: {len(missing)} of {count} videos have no file: {', '.join(shown)}")
    if annotations.table.left_out:
        print(f"left out: {say_left_out(annotations.table)}")
    if repeated:
        shown = [*repeated[:MOST_FAULTS], *["..."] * (len(repeated) > MOST_FAULTS)]
        print(f"left out: {say_count(len(repeated), 'repeated row')}:", *shown, sep="\n")


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


def _draw_splits(annotations: Annotations, val: float, test: float, seed: int) -> dict[str, str]:
    """Return the split of each video: that which is stated, else one that is drawn.

    The videos of a group are drawn together. The shares are of videos, as near as groups allow.
    """
    check_shares(val, test)
    stated = annotations.splits
    units: dict[tuple[str, str], list[str]] = {}  # videos that are drawn together
    for video in sorted(stated):
        if not stated[video]:
            group = annotations.groups.get(video)
            units.setdefault(("group", group) if group else ("video", video), []).append(video)
    left = [*units.values()]
    Random(seed).shuffle(left)
    wanted = draw_splits(sum(map(len, left)), val, test)
    splits = {**stated}
    for split in ("val", "test"):
        kept = 2 if split == "val" and "test" in wanted else 1  # units for training and the test
        for unit in _take_units(left, wanted.count(split), kept):
            splits |= dict.fromkeys(unit, split)
        left = [unit for unit in left if not splits[unit[0]]]
    splits = {video: split or "train" for video, split in splits.items()}
    if "train" not in splits.values():
        raise UserError("no video is for training")
    return {video: splits[video] for video in sorted(splits)}


def _take_units(units: Sequence[list[str]], count: int, kept: int) -> list[list[str]]:
    """Return the first units that have ``count`` videos together, or fewer; one unit at least.

    If even the smallest unit is larger, it is that one. ``kept`` units are left over, or one if
    there are two.
    """
    if not count or len(units) < 2:
        return []
    taken: list[list[str]] = []
    size = 0
    for unit in units:
        if size + len(unit) <= count and len(taken) < max(len(units) - kept, 1):
            taken.append(unit)
            size += len(unit)
    return taken or [min(units, key=len)]
