"""Files in folders, and names below addresses: which of them are videos or images."""

import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PureWindowsPath
from urllib.parse import unquote, urlsplit

from mmvidformer.data.lists import say_count
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.video.containers import SUFFIXES

ANNOTATIONS = (".xml", ".json", ".jsonl", ".csv", ".tsv", ".txt", ".gz", ".zip", ".eaf", ".boris")
MOST_KINDS = 8  # of other files, that a message names


def find_names(
    folder: str | Path, suffixes: Collection[str] = SUFFIXES, noun: str = "videos"
) -> list[str]:
    """Find files in a folder and its subfolders by suffix, but no hidden ones.

    Links to folders are followed, as by torchvision, but not to one that holds the link. A line on
    the standard error counts files of other suffixes.

    Returns:
        Their paths relative to the folder, sorted, with ``/`` on all systems.

    Raises:
        FileNotFoundError: If there is no such folder, or no such file in it.
    """
    if not Path(folder).exists():
        raise MissingFile(f"{folder} does not exist")
    length = len(os.path.join(str(folder), ""))
    names = (path[length:].replace(os.sep, "/") for path in walk_files(str(folder)))
    return select_names(names, folder, suffixes, noun)


def select_names(
    names: Iterable[str],
    folder: str | Path,
    suffixes: Collection[str] = SUFFIXES,
    noun: str = "videos",
) -> list[str]:
    """Return names with one of the suffixes, sorted, and say which others were left out.

    Raises:
        FileNotFoundError: If none has such a suffix.
    """
    selected, others, annotations = [], Counter[str](), ""
    for name in names:
        suffix = suffix_of(name)
        if suffix in suffixes:
            selected.append(name)
            continue
        others[suffix or "without a suffix"] += 1
        if suffix in ANNOTATIONS:
            annotations = annotations or name
    kinds = [f"{count} {suffix}" for suffix, count in others.most_common(MOST_KINDS)]
    if len(others) > MOST_KINDS:
        kinds.append("...")
    if not selected:
        only = f", only {', '.join(kinds)}" if kinds else ""
        hint = f"; to read {annotations}, give that file" if annotations else ""
        raise MissingFile(f"{folder} has no {noun}{only}{hint}")
    if kinds:
        count = say_count(others.total(), "other file")
        print(f"{folder}: left out {count}: {', '.join(kinds)}", file=sys.stderr)
    return sorted(selected, key=lambda name: name.split("/"))


def suffix_of(name: str) -> str:
    """Return what a name ends with, from its last dot on, in small letters."""
    return os.path.splitext(name)[1].lower()


def is_video(name: str) -> bool:
    """Whether a name ends as that of a video does."""
    return suffix_of(name) in SUFFIXES


def list_folders(folder: str | Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, but no hidden ones."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir()]
    return sorted(name for name in names if not name.startswith("."))


def place_below(path: str | Path, root: str | Path) -> Path:
    """Return where the result of a file is in a folder of results: its path relative to a root.

    That of a file outside of the root, such as ``../clip.mp4``, is its whole path, so that nothing
    is written outside of the results.
    """
    place, above = Path(os.path.abspath(path)), os.path.abspath(root)
    return place.relative_to(above if place.is_relative_to(above) else place.anchor)


def walk_files(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
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
            for name in walk_files(path, above | {identity}):
                has_videos = has_videos or is_video(name)
                yield name
            if is_video(path) and not has_videos:
                yield path
        else:
            yield path


def find_named(folder: str | Path, names: Collection[str]) -> dict[str, Path]:
    """Find the videos of names (``NamedVideos``); those without a file are left out."""
    videos = NamedVideos(folder)
    paths = ((name, videos.find(name, prefix="")) for name in names)
    return {name: path for name, path in paths if path is not None}


class NamedVideos:
    """Videos by the names that lists and tools give them.

    Args:
        folder: The folder that they are in, or below.
        videos: Their paths; default: all that the folder has.
    """

    def __init__(self, folder: str | Path = ".", videos: Iterable[str] | None = None) -> None:
        self.folder, self._videos = Path(folder), videos

    @property
    def place(self) -> str:
        """Where they are, for messages."""
        return f"in {self.folder}" if self._videos is None else "among these videos"

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        """Paths by the names of files, with and without suffix."""
        paths = defaultdict(list)
        videos = self._videos
        if videos is None:
            videos = filter(is_video, walk_files(str(self.folder)))
        for path in dict.fromkeys(map(Path, videos)):
            for name in {path.name, path.stem}:
                paths[name].append(path)
        return paths

    @cached_property
    def _by_upload(self) -> dict[str, list[Path]]:
        """Paths by the names of uploaded files."""
        paths = defaultdict(list)
        for path in {path for paths in self._by_name.values() for path in paths}:
            paths[name_of_upload(path.name)].append(path)
        return paths

    def find(self, name: str, prefix: str = "v_") -> Path | None:
        """Find a video: a path in the folder, or the only one of that name.

        If there is none, it is the only file that has the name once it is uploaded.

        Args:
            name: Path on any system, address of a file (``file://``), or name, with or without a
                suffix.
            prefix: What the file or the name may have before, unless a name fits without it.

        Raises:
            UserError: If two files have the name.
        """
        if name.startswith("file:"):
            name = unquote(urlsplit(name).path)
        if name and self._videos is None and (self.folder / name).is_file():
            return self.folder / name
        path = PureWindowsPath(name)
        plain = path.stem.removeprefix(prefix)
        for spelling in (path.name, path.stem, plain, f"{prefix}{plain}"):
            paths = self._by_name.get(spelling, [])
            if len(paths) > 1:
                paths = _nearest(paths, path)
            if len(paths) > 1:
                raise UserError(f"two files have the name {name!r}: {paths[0]} and {paths[1]}")
            if paths:
                return paths[0]
        uploads = self._by_upload.get(path.name, [])
        return uploads[0] if len(uploads) == 1 else None


def name_of_upload(name: str) -> str:
    """Return how tools that run on Django, such as Label Studio, call an uploaded file."""
    return re.sub(r"[^-\w.]", "", name.strip().replace(" ", "_"))


def _nearest(paths: Sequence[Path], wanted: PureWindowsPath) -> list[Path]:
    """Return the paths that share the most folders with a path, from the end."""

    def count_shared(path: Path) -> int:
        pairs = zip(reversed(path.parts[:-1]), reversed(wanted.parts[:-1]), strict=False)
        return len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])

    most = max(map(count_shared, paths))
    return [path for path in paths if count_shared(path) == most]
