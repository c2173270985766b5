from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mmvidformer.data.class_folders import LabeledVideo
from mmvidformer.data.folders import list_folders
from mmvidformer.data.lists import (
    DEFAULT_DELIMITER,
    find_delimiter,
    read_list,
)
from mmvidformer.data.splits import (
    SHARE,
    SPLITS,
    draw_folds,
    draw_splits,
    draw_splits_of_folds,
    order_of_fold,
)
from mmvidformer.data.tables import read_rows
from mmvidformer.data.text import read_text
from mmvidformer.errors import FileThere, MissingFile, UserError
from mmvidformer.storage.files import write_file

CLASSES = "classes.txt"
GROUPS = "groups.csv"  # of the videos of lists, if the annotations state them
FOLD = "fold_"  # before the name of a fold, in the name of its folder
NO_TEXT = "its name is not text in UTF-8, which lists are; rename it"
FILES = (*(f"{split}.txt" for split in SPLITS), CLASSES)


def split_videos(
    videos: Sequence[LabeledVideo], val: float = SHARE, test: float = SHARE, seed: int = 0
) -> list[LabeledVideo]:
    """Draw the split of each video, class by class, unless the folders state it.

    Shares are drawn as by ``draw_splits``, ``by_class``.

    Raises:
        UserError: If the shares leave nothing for training.
    """
    videos = sorted(videos, key=lambda video: str(video.path))
    if all(video.split is not None for video in videos):
        return videos
    labels = [[video.label] for video in videos]
    splits = draw_splits(labels, range(len(videos)), val, test, seed, by_class=True)
    return [video._replace(split=split) for video, split in zip(videos, splits, strict=True)]


def fold_videos(
    videos: Sequence[LabeledVideo], count: int, val: float = 0.0, seed: int = 0
) -> dict[str, list[LabeledVideo]]:
    """Return the videos with their splits in each of ``count`` folds, which are drawn.

    Raises:
        UserError: If there are fewer videos than folds, or folders state splits.
    """
    if any(video.split for video in videos):
        raise UserError("there are folders of splits; folds are drawn of folders of classes alone")
    videos = sorted(videos, key=lambda video: str(video.path))
    labels, groups = [[video.label] for video in videos], range(len(videos))
    folds = [str(fold + 1) for fold in draw_folds(labels, groups, count, seed)]
    splits_of = draw_splits_of_folds(labels, groups, folds, val, seed, by_class=True)
    folded = {}
    for name, splits in splits_of.items():
        folded[name] = [
            video._replace(split=split) for video, split in zip(videos, splits, strict=True)
        ]
    return folded


class ListFacts(NamedTuple):
    """What a list says that training asks for; the list is read once.

    Attributes:
        sizes: Size of each class (classes,), in ``Task.size_unit``.
        ends: Last second of each video (videos,) that annotations need, of tasks with seconds.
        values: Values of each video (videos, values), of tasks with values.
    """

    sizes: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()


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


def write_lists(
    videos: Sequence[LabeledVideo], folder: str | Path, force: bool = False
) -> VideoLists:
    """Write ``train.txt``, ``val.txt``, ``test.txt`` and ``classes.txt``.

    A line is a path and the number of a class, for MMAction2's ``VideoDataset``, separated by a
    space (``delimiter``), or a tab if a path has a space. Paths of videos outside the folder are
    absolute. ``force`` overwrites lists.

    Raises:
        FileExistsError: If there are lists, and not ``force``.
        UserError: If a list cannot hold a path or class, or no video is for training.
    """
    root = Path(folder).resolve()
    if not force:
        check_absent(root, FILES)
    above = f"{root.as_posix().rstrip('/')}/"
    names = [video.path.absolute().as_posix().removeprefix(above) for video in videos]
    classes = sorted({video.label for video in videos})
    check_names([*names, *classes])
    numbers = {name: number for number, name in enumerate(classes)}
    delimiter = "\t" if any(" " in name for name in names) else " "
    lines = {CLASSES: [f"{name}\n" for name in classes]} | {f"{split}.txt": [] for split in SPLITS}
    for video, name in zip(videos, names, strict=True):
        lines[f"{video.split}.txt"].append(f"{name}{delimiter}{numbers[video.label]}\n")
    if not lines["train.txt"]:
        raise UserError("no video is for training")
    for name, text in lines.items():
        write_file(root / name, "".join(text).encode())
    return read_lists(root)


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


def check_names(names: Sequence[str]) -> None:
    """Raise a ``UserError`` if MMAction2's lists cannot hold a path or the name of a class."""
    for name in names:
        if not is_text(name):
            raise UserError(f"{name!r}: {NO_TEXT}")
        if name != name.strip() or len(name.splitlines()) != 1 or "\t" in name:
            wrong = "has a space at an end, a tab or a line break"
            raise UserError(f"{name!r} {wrong}, which MMAction2's lists cannot hold; rename it")


def read_lists(folder: str | Path, multi_class: bool = False) -> VideoLists:
    """Read lists as ``write_lists`` writes them; with ``multi_class``, of any number of classes.

    Raises:
        FileNotFoundError: If the folder, ``train.txt`` or ``classes.txt`` is missing.
        UserError: If a line is not a path and a number; names file and line.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise MissingFile(f"folder {folder} does not exist")
    for name in ("train.txt", CLASSES):
        if not (root / name).is_file():
            wanted = "mmvidformer data list writes it"
            raise MissingFile(f"{root / name} does not exist; {wanted}")
    files = [root / f"{split}.txt" for split in SPLITS if (root / f"{split}.txt").is_file()]
    counts = dict.fromkeys(SPLITS, 0)
    texts = [read_text(file) for file in files]
    delimiters = {find_delimiter(text) for text in texts if text.strip()}
    classes = tuple(read_text(root / CLASSES).splitlines())
    facts = dict.fromkeys(SPLITS, ListFacts((0,) * len(classes)))
    for file in files:
        lines = read_list(file, multi_class=multi_class)
        counts[file.stem] = len(lines)
        sizes = Counter(label for line in lines for label in line.labels)
        facts[file.stem] = ListFacts(tuple(sizes[number] for number in range(len(classes))))
        for number, line in enumerate(lines, start=1):
            if line.labels and not 0 <= min(line.labels) <= max(line.labels) < len(classes):
                allowed = f"0 to {len(classes) - 1}, as {CLASSES} has {len(classes)} lines"
                what = f"label must be in {allowed}, got {line.text.strip()[:100]!r}"
                raise UserError(f"{file}, line {number}: {what}")
    # If they differ, each dataset finds its own.
    delimiter = delimiters.pop() if len(delimiters) == 1 else DEFAULT_DELIMITER
    return VideoLists(root, classes, counts, delimiter, facts)
