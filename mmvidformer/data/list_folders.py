from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mmvidformer.data.folders import list_folders
from mmvidformer.data.lists import DEFAULT_DELIMITER
from mmvidformer.data.splits import order_of_fold
from mmvidformer.data.table_numbers import read_float
from mmvidformer.data.tables import read_rows
from mmvidformer.errors import FileThere, UserError

CLASSES = "classes.txt"
GROUPS = "groups.csv"  # of the videos of lists, if the annotations state them
DURATIONS = "durations.csv"  # of the videos of lists, if one is long
LONG = 30.0  # seconds, above which a video is many samples; clips of usual data sets are shorter
FOLD = "fold_"  # before the name of a fold, in the name of its folder
NO_TEXT = "its name is not text in UTF-8, which lists are; rename it"


class ListFacts(NamedTuple):
    """What a list says that training asks for; the list is read once.

    Attributes:
        sizes: Size of each class (classes,), in ``Task.size_unit``.
        ends: Last second of each video (videos,) that annotations need, of tasks with seconds.
        values: Values of each video (videos, values), of tasks with values.
        durations: Seconds of each video (videos,), of tasks without, if ``durations.csv`` states
            some; 0 if not those of this video.
    """

    sizes: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    durations: tuple[float, ...] = ()


class SplitList(NamedTuple):
    """What the list of a split says.

    Attributes:
        count: Number of samples.
        facts: What training asks for.
        values: Names of the values, of tasks without classes.
        delimiter: What separates the columns.
    """

    count: int
    facts: ListFacts
    values: tuple[str, ...] = ()
    delimiter: str = ","


class VideoLists(NamedTuple):
    """A folder of lists.

    Attributes:
        root: Its absolute path.
        classes: Names of the classes, or of the values.
        counts: Number of samples by split.
        delimiter: What separates the columns of the lists.
        facts: What the list of each split says.
    """

    root: Path
    classes: tuple[str, ...]
    counts: dict[str, int]
    delimiter: str
    facts: Mapping[str, ListFacts] = MappingProxyType({})


def fold_folders(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Return the folder of each fold's lists.

    Raises:
        FileExistsError: If there are those of other folds, which a run of all folds would read.
    """
    folders = {name: folder / f"{FOLD}{name}" for name in names}
    others = [path.name for path in find_folds(folder).values() if path not in folders.values()]
    if others:
        raise FileThere(f"{folder} has other folds: {', '.join(others)}; give another --out")
    return folders


def find_folds(folder: str | Path) -> dict[str, Path]:
    """Return the folders of folds by their names, in order."""
    if not Path(folder).is_dir():
        return {}
    names = [name.removeprefix(FOLD) for name in list_folders(folder) if name.startswith(FOLD)]
    return {name: Path(folder, FOLD + name) for name in sorted(names, key=order_of_fold)}


def read_groups(root: Path) -> dict[str, str]:
    """Return the group of videos, by their paths, that lists in a folder state."""
    file = root / GROUPS
    if not file.is_file():
        return {}
    return {str(root / row["video"]): row["group"] for row, _ in read_rows(file, "video", "group")}


def read_durations(file: Path) -> dict[str, float]:
    """Return the seconds of videos by their paths, as the lists beside a file name them."""
    if not file.is_file():
        return {}
    rows = read_rows(file, "video", "seconds")
    return {row["video"]: read_float(row, "seconds", place) for row, place in rows}


def is_text(name: str) -> bool:
    """Whether the name of a file is text in UTF-8, as lists are; Linux allows any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_absent(folder: Path, names: Iterable[str]) -> None:
    """Raise a ``FileExistsError`` if a folder has one of the files."""
    present = [name for name in names if (folder / name).exists()]
    if present:
        raise FileThere(f"{folder} has {', '.join(present)} already; --force overwrites them")


def choose_delimiter(paths: Sequence[str]) -> str:
    """Return what separates the columns of MMAction2's lists: a space, or a tab if paths have one.

    Raises:
        UserError: If a list cannot hold a path.
    """
    check_names(paths)
    return "\t" if any(" " in path for path in paths) else DEFAULT_DELIMITER


def check_names(names: Sequence[str]) -> None:
    """Raise a ``UserError`` if MMAction2's lists cannot hold a path or the name of a class."""
    for name in names:
        if not is_text(name):
            raise UserError(f"{name!r}: {NO_TEXT}")
        if name != name.strip() or len(name.splitlines()) != 1 or "\t" in name:
            wrong = "has a space at an end, a tab or a line break"
            raise UserError(f"{name!r} {wrong}, which MMAction2's lists cannot hold; rename it")
