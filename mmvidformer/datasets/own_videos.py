"""Labelled videos of one's own: from folders of classes or a csv file to three splits."""

import csv
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from mmvidformer.datasets.video_files import find_videos

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class LabelledVideo:
    """A video file, the name of its class, and its split where that is given."""

    path: Path
    label: str
    split: str | None = None


def read_class_folders(folder: str | Path) -> tuple[list[LabelledVideo], list[Path]]:
    """Read ``folder/class/.../video``, or ``folder/split/class/.../video``.

    Splits are taken from the folders if all of them are named train, val or test.

    Args:
        folder: Folder of the classes.

    Returns:
        The videos, and files that were left out: of other suffixes, or in no class's folder.

    Raises:
        NotADirectoryError: If there is no such folder.
        ValueError: If it holds no video in a class's folder.
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
            continue
        videos.append(LabelledVideo(path, parts[level], parts[0] if level else None))
    if not videos:
        raise ValueError(f"{folder} holds no video as class/video.mp4; its videos: {len(paths)}")
    return videos, others


def read_labels_csv(file: str | Path, root: str | Path | None = None) -> list[LabelledVideo]:
    """Read a csv file with the columns ``path``, ``label`` and optionally ``split``.

    Args:
        file: The file, with a header.
        root: Folder that the paths are below; default: that of the file.

    Raises:
        ValueError: If a column is missing, a cell is empty, a split is unknown, a video is listed
            under two classes, or no row is there.
    """
    file = Path(file)
    root = file.parent if root is None else Path(root)
    videos: dict[Path, LabelledVideo] = {}
    with open(file, newline="", encoding="utf-8-sig") as lines:
        rows = csv.DictReader(lines, skipinitialspace=True)
        if not {"path", "label"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{file} needs the columns path,label; it has {rows.fieldnames}")
        for row in rows:
            where = f"{file}, line {rows.line_num}"
            cells = {name: (row.get(name) or "").strip() for name in ("path", "label", "split")}
            if not cells["path"] or not cells["label"]:
                raise ValueError(f"{where}: path or label is empty")
            if cells["split"] not in ("", *SPLITS):
                raise ValueError(f"{where}: a split is one of {SPLITS}, got {cells['split']!r}")
            video = LabelledVideo(root / cells["path"], cells["label"], cells["split"] or None)
            known = videos.setdefault(video.path, video)
            if known != video:
                raise ValueError(
                    f"{where}: {cells['path']} has label {known.label!r} and split {known.split} "
                    f"before, and {video.label!r} and {video.split} here"
                )
    if not videos:
        raise ValueError(f"{file} lists no videos")
    return list(videos.values())


def split_videos(
    videos: Sequence[LabelledVideo], val: float = 0.15, test: float = 0.15, seed: int = 0
) -> list[LabelledVideo]:
    """Give each video that has none a split, class by class.

    Of a class's videos the shares ``val`` and ``test`` are drawn, rounded, at least one each; a
    class of two videos has one for training and one for validation, a class of one video is only
    trained on. What is drawn of a class does not depend on the others.

    Args:
        videos: All or none of a class may have a split already.
        val: Share for validation, 0 for none.
        test: Share for testing, 0 for none.
        seed: Of the draw.

    Raises:
        ValueError: If the shares leave nothing for training, or a class has videos with and without
            a split.
    """
    if min(val, test) < 0 or val + test >= 1:
        raise ValueError(f"the shares must be 0 or more and leave some to train: {val}, {test}")
    by_class = defaultdict(list)
    for video in videos:
        by_class[video.label].append(video)
    done = []
    for label, members in sorted(by_class.items()):
        given = [video for video in members if video.split]
        if given and len(given) < len(members):
            raise ValueError(
                f"class {label!r} has {len(given)} videos with a split and "
                f"{len(members) - len(given)} without; give all of them one, or none"
            )
        if given:
            done += given
            continue
        members.sort(key=lambda video: str(video.path))
        Random(f"{seed}/{label}").shuffle(members)
        sizes = share_out(len(members), val, test)
        names = [name for name, size in zip(SPLITS, sizes, strict=True) for _ in range(size)]
        done += [replace(v, split=name) for v, name in zip(members, names, strict=True)]
    return sorted(done, key=lambda video: str(video.path))


def share_out(count: int, val: float, test: float) -> tuple[int, int, int]:
    """Videos of a class of ``count`` for training, validation and testing."""
    for_val = max(1, round(count * val)) if val and count >= 2 else 0
    for_test = max(1, round(count * test)) if test and count >= 2 + (val > 0) else 0
    while for_val + for_test >= count > 1:
        if for_test >= for_val:
            for_test -= 1
        else:
            for_val -= 1
    return count - for_val - for_test, for_val, for_test


def count_splits(videos: Sequence[LabelledVideo]) -> dict[str, tuple[int, int, int]]:
    """Count the videos of each class by split, classes in order."""
    counts = Counter((video.label, video.split) for video in videos)
    labels = sorted({video.label for video in videos})
    return {label: tuple(counts[label, split] for split in SPLITS) for label in labels}
