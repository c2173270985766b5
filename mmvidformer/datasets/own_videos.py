"""One's own labeled videos: found in folders or a csv file, split, and listed for MMAction2."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from mmvidformer.datasets.csv_rows import read_rows
from mmvidformer.datasets.video_files import find_videos

SPLITS = ("train", "val", "test")
CLASSES = "classes.txt"
FILES = (*(f"{split}.txt" for split in SPLITS), CLASSES)


@dataclass(frozen=True)
class LabeledVideo:
    """A video file, the name of its class, and its split if that is given."""

    path: Path
    label: str
    split: str | None = None


def read_class_folders(folder: str | Path) -> tuple[list[LabeledVideo], list[Path]]:
    """Find videos in ``folder/class/.../video`` or ``folder/split/class/.../video``.

    The top folders are splits if all of them are named train, val or test.

    Returns:
        The videos, and the skipped files: those with other suffixes or outside a class's folder.

    Raises:
        NotADirectoryError: If there is no such folder.
        ValueError: If it has no video in a class's folder.
    """
    folder = Path(folder)
    paths, others = find_videos(folder)
    tops = {path.relative_to(folder).parts[0] for path in paths if path.parent != folder}
    level = 1 if "train" in tops and tops <= set(SPLITS) else 0
    videos = []
    for path in paths:
        parts = path.relative_to(folder).parts
        if len(parts) < level + 2:
            others.append(path)
        else:
            videos.append(LabeledVideo(path, parts[level], parts[0] if level else None))
    if not videos:
        raise ValueError(f"{folder} has no CLASS/VIDEO, only {len(paths)} videos outside of those")
    return videos, others


def read_labels_csv(file: str | Path, root: str | Path | None = None) -> list[LabeledVideo]:
    """Read a csv file with a header and the columns ``path``, ``label`` and optionally ``split``.

    Args:
        file: The csv file.
        root: Folder that the paths are relative to. Default: that of the file.

    Raises:
        ValueError: If a column is missing, a cell is empty, a split is unknown, a video is listed
            under two classes, or there are no rows.
    """
    root = Path(file).parent if root is None else Path(root)
    videos: dict[Path, LabeledVideo] = {}
    for row, where in read_rows(file, "path", "label"):
        path, label, split = ((row.get(k) or "").strip() for k in ("path", "label", "split"))
        if not path or not label:
            raise ValueError(f"{where}: path or label is empty")
        if split not in ("", *SPLITS):
            raise ValueError(f"{where}: split must be one of {SPLITS}, got {split!r}")
        video = LabeledVideo(root / path, label, split or None)
        known = videos.setdefault(video.path, video)
        if known != video:
            raise ValueError(
                f"{where}: {path} has label {label!r} and split {video.split}, but "
                f"{known.label!r} and {known.split} in a line before"
            )
    if not videos:
        raise ValueError(f"{file} lists no videos")
    return list(videos.values())


def split_videos(
    videos: Sequence[LabeledVideo], val: float = 0.15, test: float = 0.15, seed: int = 0
) -> list[LabeledVideo]:
    """Assign a split to each video that has none, class by class.

    The shares ``val`` and ``test`` of each class are drawn, rounded, at least one video each. Of a
    class of two videos one is for training and one for validation; a single video is for training.
    The draw of a class does not depend on other classes.

    Args:
        videos: Of each class, all or none have a split already.
        val: Share for validation, 0 for none.
        test: Share for testing, 0 for none.
        seed: Random seed.

    Raises:
        ValueError: If the shares leave nothing for training, or a class has videos with and without
            a split.
    """
    if min(val, test) < 0 or val + test >= 1:
        raise ValueError(f"val and test must be 0 or more and below 1 together, got {val}, {test}")
    by_class = defaultdict(list)
    for video in videos:
        by_class[video.label].append(video)
    done = []
    for label, members in sorted(by_class.items()):
        given = [video for video in members if video.split]
        if given and len(given) < len(members):
            raise ValueError(
                f"{len(given)} of {len(members)} videos of class {label!r} have a split; "
                "all or none must have one"
            )
        members.sort(key=lambda video: str(video.path))
        if not given:
            Random(f"{seed}/{label}").shuffle(members)
            sizes = split_sizes(len(members), val, test)
            names = [name for name, size in zip(SPLITS, sizes, strict=True) for _ in range(size)]
            members = [replace(v, split=name) for v, name in zip(members, names, strict=True)]
        done += members
    return sorted(done, key=lambda video: str(video.path))


def split_sizes(count: int, val: float, test: float) -> tuple[int, int, int]:
    """Divide a class of ``count`` videos into training, validation and test videos."""
    for_val = max(1, round(count * val)) if val and count >= 2 else 0
    for_test = max(1, round(count * test)) if test and count >= 2 + (val > 0) else 0
    while for_val + for_test >= count > 1:
        if for_test >= for_val:
            for_test -= 1
        else:
            for_val -= 1
    return count - for_val - for_test, for_val, for_test


@dataclass(frozen=True)
class VideoLists:
    """A folder of lists.

    Attributes:
        root: The folder, absolute.
        classes: Names of the classes, by number.
        counts: Number of videos by split.
        delimiter: What separates path and class: a blank, or a tab if paths have blanks.
        prefix: The folder that relative paths start from. Empty if all paths are absolute.
    """

    root: Path
    classes: tuple[str, ...]
    counts: dict[str, int]
    delimiter: str
    prefix: str


def write_lists(
    videos: Sequence[LabeledVideo], folder: str | Path, force: bool = False
) -> VideoLists:
    """Write ``train.txt``, ``val.txt``, ``test.txt`` and ``classes.txt``.

    A line is a path and the number of a class, for MMAction2's ``VideoDataset``. If a path has a
    blank they are separated by a tab (``delimiter``), else by a blank. Paths are relative to the
    folder if all videos are inside it, else absolute.

    Args:
        videos: Videos with splits.
        folder: Folder to write to. Created if it does not exist.
        force: Whether to overwrite lists.

    Raises:
        FileExistsError: If there are lists, and not ``force``.
        ValueError: If a list cannot hold a path or class, or no video is for training.
    """
    root = Path(folder).resolve()
    found = [name for name in FILES if (root / name).exists()]
    if found and not force:
        raise FileExistsError(f"{root} has {', '.join(found)} already; --force overwrites them")
    paths = [video.path.absolute() for video in videos]
    if all(path.is_relative_to(root) for path in paths):
        paths = [path.relative_to(root) for path in paths]
    names = [path.as_posix() for path in paths]
    classes = sorted({video.label for video in videos})
    for name in (*names, *classes):
        if name != name.strip() or len(name.splitlines()) != 1 or "\t" in name:
            raise ValueError(
                f"{name!r} has a blank at an end, a tab or a line break, which MMAction2's lists "
                "cannot hold; rename it"
            )
    delimiter = "\t" if any(" " in name for name in names) else " "
    numbers = {name: number for number, name in enumerate(classes)}
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for video, name in zip(videos, names, strict=True):
        lines[video.split].append(f"{name}{delimiter}{numbers[video.label]}\n")
    if not lines["train"]:
        raise ValueError("no video is for training")
    lines[Path(CLASSES).stem] = [f"{name}\n" for name in classes]
    root.mkdir(parents=True, exist_ok=True)
    for stem, text in lines.items():
        (root / f"{stem}.txt").write_text("".join(text), encoding="utf-8")
    return read_lists(root)


def read_lists(folder: str | Path) -> VideoLists:
    """Read lists as ``write_lists`` writes them.

    Raises:
        FileNotFoundError: If ``train.txt`` or ``classes.txt`` is missing.
        ValueError: If a line is not a path and the number of a class; names file and line.
    """
    root = Path(folder).resolve()
    for name in ("train.txt", CLASSES):
        if not (root / name).is_file():
            raise FileNotFoundError(
                f"{root / name} does not exist; tools/data/make_annotations.py writes the lists"
            )
    lines: dict[str, list[str]] = dict.fromkeys(FILES, [])
    for name in FILES:
        if (root / name).is_file():
            lines[name] = (root / name).read_text(encoding="utf-8").splitlines()
    classes = tuple(lines.pop(CLASSES))
    delimiter = "\t" if "\t" in "".join(map("".join, lines.values())) else " "
    prefix = ""
    for file, entries in lines.items():
        for number, line in enumerate(entries, start=1):
            path, *label = line.strip().split(delimiter)
            if not Path(path).is_absolute():
                prefix = str(root)
            if len(label) != 1 or not label[0].isdigit() or int(label[0]) >= len(classes):
                raise ValueError(
                    f"{root / file}, line {number}: expected a path, "
                    f"{'a blank' if delimiter == ' ' else 'a tab'} and a class from 0 to "
                    f"{len(classes) - 1}, got {line!r}"
                )
    counts = {Path(file).stem: len(entries) for file, entries in lines.items()}
    return VideoLists(root, classes, counts, delimiter, prefix)
