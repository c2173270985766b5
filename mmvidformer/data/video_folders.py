"""Video files in folders, and below addresses."""

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from mmvidformer.data.lists import say_count
from mmvidformer.video.containers import SUFFIXES

MOST_KINDS = 8  # of other files, that a message names


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
    """Find the videos of names, which are paths in a folder, or names of files in or below it.

    Args:
        folder: Folder to search, with its subfolders.
        names: Names of videos, with or without suffixes. Those without a file are left out of the
            result.
        prefix: What files or names may have before the name, unless a name fits without it.

    Raises:
        ValueError: If two files have the same one of the names.
    """
    paths = {name: Path(folder, name) for name in names if Path(folder, name).is_file()}
    known = set(names) - paths.keys()
    if not known:
        return paths
    for path in map(Path, filter(is_video, _walk(str(folder), frozenset()))):
        plain = path.stem.removeprefix(prefix)
        spellings = (path.name, path.stem, plain, f"{prefix}{plain}")
        name = next((name for name in spellings if name in known), None)
        if name is None:
            continue
        if name in paths:
            raise ValueError(f"two files have the name {name!r}: {paths[name]} and {path}")
        paths[name] = path
    return paths
