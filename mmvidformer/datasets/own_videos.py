import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from mmvidformer.datasets.csv_rows import read_text
from mmvidformer.datasets.lists import read_list, say_count
from mmvidformer.video.containers import SUFFIXES

SPLITS = ("train", "val", "test")
CLASSES = "classes.txt"
FILES = (*(f"{split}.txt" for split in SPLITS), CLASSES)
MOST_KINDS = 8  # of other files, that a message names


class LabeledVideo(NamedTuple):
    """A video file, the name of its class, and its split, None before it is drawn."""

    path: Path
    label: str
    split: str | None = None


def find_videos(folder: str | Path) -> list[Path]:
    """Find the video files in a folder and its subfolders by suffix, sorted, but no hidden ones.

    Links to folders are followed, as by torchvision, but not to one that holds the link. A line on
    the standard error counts files of other suffixes.

    Raises:
        FileNotFoundError: If there is no such folder, or no video in it.
    """
    if not Path(folder).exists():
        raise FileNotFoundError(f"{folder} does not exist")
    return [Path(name) for name in select_videos(_walk(str(folder), frozenset()), folder)]


def select_videos(names: Iterable[str], folder: str | Path) -> list[str]:
    """Return names with the suffix of a video, sorted, and say which others were left out.

    Raises:
        FileNotFoundError: If none has such a suffix.
    """
    videos, others = [], Counter[str]()
    for name in names:
        if is_video(name):
            videos.append(name)
        else:
            others[os.path.splitext(name)[1].lower() or "without a suffix"] += 1
    kinds = [f"{count} {suffix}" for suffix, count in others.most_common(MOST_KINDS)]
    if len(others) > MOST_KINDS:
        kinds.append("...")
    if not videos:
        only = f", only {', '.join(kinds)}" if kinds else ""
        raise FileNotFoundError(f"{folder} has no videos{only}")
    if kinds:
        count = say_count(others.total(), "other file")
        print(f"{folder}: left out {count}: {', '.join(kinds)}", file=sys.stderr)
    return sorted(videos, key=lambda name: name.split("/"))


def is_video(name: str) -> bool:
    """Whether a name ends as that of a video does."""
    return os.path.splitext(name)[1].lower() in SUFFIXES


def _walk(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Yield the files below a folder; ``above`` has the device and inode of those that hold it.

    A folder below it that may not be read is left out, and named. One that is named as a video is
    and has none counts as a file, which cannot be read.
    """
    if not os.path.isdir(folder):
        return
    status = os.stat(folder)
    identity = status.st_dev, status.st_ino
    if identity in above:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError as error:
        if not above:
            raise
        print(f"left out: {error}", file=sys.stderr)
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = os.path.join(folder, entry.name)
        is_link = entry.is_symlink()  # perhaps to itself, which os.path.isdir knows
        if os.path.isdir(path) if is_link else entry.is_dir():
            has_videos = False
            for name in _walk(path, above | {identity}):
                has_videos = has_videos or is_video(name)
                yield name
            if is_video(path) and not has_videos:
                yield path
        else:
            yield path


def find_named(folder: str | Path, names: Collection[str], prefix: str = "") -> dict[str, Path]:
    """Find the videos of names, which are those of files without their suffixes.

    Args:
        folder: Folder to search, with its subfolders.
        names: Names of videos. Those without a file are left out of the result.
        prefix: What files or names may have before the name.

    Raises:
        ValueError: If two files have the same one of the names.
    """
    plain = {name.removeprefix(prefix): name for name in names}
    paths: dict[str, Path] = {}
    for path in map(Path, filter(is_video, _walk(str(folder), frozenset()))):
        name = plain.get(path.stem.removeprefix(prefix))
        if name is None:
            continue
        if name in paths:
            raise ValueError(f"two files have the name {name!r}: {paths[name]} and {path}")
        paths[name] = path
    return paths


def read_class_folders(folder: str | Path) -> tuple[list[LabeledVideo], list[Path]]:
    """Find videos in ``folder/class/.../video`` or ``folder/split/class/.../video``.

    The top folders are splits if all of them are named train, val or test. Returns the videos, and
    those outside of a class's folder.

    Raises:
        FileNotFoundError: If there are no videos.
        ValueError: If none is in a class's folder.
    """
    parts = {path: path.relative_to(folder).parts[:-1] for path in find_videos(folder)}
    tops = {names[0] for names in parts.values() if names}
    level = int("train" in tops and tops <= set(SPLITS))
    videos = [
        LabeledVideo(path, names[level], names[0] if level else None)
        for path, names in parts.items()
        if len(names) > level
    ]
    if not videos:
        raise ValueError(f"{folder} has no CLASS/VIDEO, only {len(parts)} videos outside of those")
    return videos, [path for path, names in parts.items() if len(names) <= level]


def find_empty_classes(folder: str | Path, videos: Sequence[LabeledVideo]) -> list[str]:
    """Return the folders of classes, in ``read_class_folders``' layouts, that hold no video."""
    roots = [Path(folder)]
    if any(video.split for video in videos):
        roots = [Path(folder) / split for split in SPLITS]
    folders = [path for root in roots if root.is_dir() for path in root.iterdir() if path.is_dir()]
    names = {path.name for path in folders if not path.name.startswith(".")}
    return sorted(names - {video.label for video in videos})


def split_videos(
    videos: Sequence[LabeledVideo], val: float = 0.15, test: float = 0.15, seed: int = 0
) -> list[LabeledVideo]:
    """Draw the split of each video, class by class, unless the folders state it.

    The shares ``val`` and ``test`` of each class are drawn, rounded, at least one video each, while
    one is left for training. The draw of a class does not depend on other classes.

    Raises:
        ValueError: If the shares leave nothing for training.
    """
    check_shares(val, test)
    videos = sorted(videos, key=lambda video: str(video.path))
    if all(video.split is not None for video in videos):
        return videos
    _, classes = np.unique([video.label for video in videos], return_inverse=True)
    sizes = np.bincount(classes)
    splits = np.full(len(videos), "train", object)
    for members in np.split(np.argsort(classes, kind="stable"), np.cumsum(sizes)[:-1]):
        numbers, left = members.tolist(), len(members)
        Random(f"{seed}/{videos[numbers[0]].label}").shuffle(numbers)
        for split, share in (("val", val), ("test", test)):
            count = min(max(1, round(len(members) * share)), left - 1) if share else 0
            first, left = len(members) - left, left - count
            splits[numbers[first : first + count]] = split
    return [
        LabeledVideo(path, label, split)
        for (path, label, _), split in zip(videos, splits, strict=True)
    ]


def check_shares(val: float, test: float) -> None:
    """Raise a ``ValueError`` if the shares of validation and test leave nothing for training."""
    if min(val, test) < 0 or val + test >= 1:
        raise ValueError(f"val and test must be 0 or more and below 1 together, got {val}, {test}")


class VideoLists(NamedTuple):
    """A folder of lists: its absolute path, names of the classes, and number of videos by split."""

    root: Path
    classes: tuple[str, ...]
    counts: dict[str, int]
    delimiter: str


def write_lists(
    videos: Sequence[LabeledVideo], folder: str | Path, force: bool = False
) -> VideoLists:
    """Write ``train.txt``, ``val.txt``, ``test.txt`` and ``classes.txt``.

    A line is a path and the number of a class, for MMAction2's ``VideoDataset``, separated by a
    space (``delimiter``), or a tab if a path has a space. Paths of videos outside the folder are
    absolute. ``force`` overwrites lists.

    Raises:
        FileExistsError: If there are lists, and not ``force``.
        ValueError: If a list cannot hold a path or class, or no video is for training.
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
        raise ValueError("no video is for training")
    root.mkdir(parents=True, exist_ok=True)
    for name, text in lines.items():
        (root / name).write_text("".join(text), encoding="utf-8")
    return read_lists(root)


def check_absent(folder: Path, names: Iterable[str]) -> None:
    """Raise a ``FileExistsError`` if a folder has one of the files."""
    present = [name for name in names if (folder / name).exists()]
    if present:
        raise FileExistsError(f"{folder} has {', '.join(present)} already; --force overwrites them")


def check_names(names: Sequence[str]) -> None:
    """Raise a ``ValueError`` if MMAction2's lists cannot hold a path or the name of a class."""
    for name in names:
        if name != name.strip() or len(name.splitlines()) != 1 or "\t" in name:
            wrong = "has a space at an end, a tab or a line break"
            raise ValueError(f"{name!r} {wrong}, which MMAction2's lists cannot hold; rename it")


def read_lists(folder: str | Path, multi_class: bool = False) -> VideoLists:
    """Read lists as ``write_lists`` writes them; with ``multi_class``, of any number of classes.

    Raises:
        FileNotFoundError: If the folder, ``train.txt`` or ``classes.txt`` is missing.
        ValueError: If a line is not a path and a number; names file and line.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"folder {folder} does not exist")
    for name in ("train.txt", CLASSES):
        if not (root / name).is_file():
            wanted = "mmvidformer data list writes it"
            raise FileNotFoundError(f"{root / name} does not exist; {wanted}")
    files = [root / f"{split}.txt" for split in SPLITS if (root / f"{split}.txt").is_file()]
    delimiter = "\t" if any("\t" in read_text(file) for file in files) else " "
    counts = dict.fromkeys(SPLITS, 0)
    for file in files:
        counts[file.stem] = len(read_list(file, delimiter, multi_class))
    return VideoLists(root, tuple(read_text(root / CLASSES).splitlines()), counts, delimiter)
