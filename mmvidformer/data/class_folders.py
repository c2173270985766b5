"""Videos in folders of classes, perhaps in folders of splits."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mmvidformer.data.folders import find_videos, list_folders
from mmvidformer.data.lists import MOST_FAULTS, identity_of, say_count
from mmvidformer.data.splits import split_of
from mmvidformer.errors import UserError


class LabeledVideo(NamedTuple):
    """A video file, the name of its class, and its split, None before it is drawn."""

    path: Path
    label: str
    split: str | None = None


def read_class_folders(folder: str | Path) -> tuple[list[LabeledVideo], list[Path]]:
    """Find videos in ``folder/class/.../video`` or ``folder/split/class/.../video``.

    The names of splits are those of ``SPLIT_NAMES``. Returns the videos, and those outside of a
    class's folder.

    Raises:
        FileNotFoundError: If there are no videos.
        UserError: If none is in a class's folder, or only some of the folders are splits.
    """
    parts = {path: path.relative_to(folder).parts[:-1] for path in find_videos(folder)}
    has_splits = _has_splits(folder, sorted({names[0] for names in parts.values() if names}))
    level = int(has_splits)
    videos = []
    for path, names in parts.items():
        if len(names) > level:
            split = split_of(names[0]) if has_splits else None
            videos.append(LabeledVideo(path, names[level], split))
    if not videos:
        form = "SPLIT/CLASS/VIDEO" if has_splits else "CLASS/VIDEO"
        count = say_count(len(parts), "video")
        raise UserError(f"{folder} has no {form}, only {count} outside of those")
    return videos, [path for path, names in parts.items() if len(names) <= level]


def leave_out_repeated(
    videos: Sequence[LabeledVideo],
) -> tuple[list[LabeledVideo], dict[Path, str]]:
    """Return each file once, of several links to it, and why the other videos are left out.

    Raises:
        UserError: If a file is in two classes or splits.
    """
    firsts: dict[object, LabeledVideo] = {}
    repeated: dict[Path, str] = {}
    faults = []
    for video in videos:
        first = firsts.setdefault(identity_of(str(video.path)), video)
        if first is video:
            continue
        what = f"it is the same file as {first.path}"
        repeated[video.path] = what
        if (first.label, first.split) != (video.label, video.split):
            faults.append(f"{video.path}: {what}, in another class or split")
    if faults:
        more = [f"and {len(faults) - MOST_FAULTS} more"] * (len(faults) > MOST_FAULTS)
        raise UserError("\n".join([*faults[:MOST_FAULTS], *more]))
    return [video for video in videos if video.path not in repeated], repeated


def find_empty_classes(folder: str | Path, videos: Sequence[LabeledVideo]) -> list[str]:
    """Return the folders of classes, in ``read_class_folders``' layouts, that hold no video."""
    names = list_folders(folder)
    if any(video.split for video in videos):
        splits = [Path(folder, name) for name in names if split_of(name)]
        names = [name for split in splits for name in list_folders(split)]
    return sorted({*names} - {video.label for video in videos})


def _has_splits(folder: str | Path, names: Sequence[str]) -> bool:
    """Whether folders are those of splits; a ``UserError`` if only some of them are."""
    splits = [name for name in names if split_of(name)]
    if not splits:
        return False
    classes = [name for name in names if not split_of(name)]
    if classes:
        what = f"{folder} has the folder {splits[0]} of a split beside {', '.join(classes[:5])}"
        todo = "put all classes into folders of splits, or rename it if it is a class"
        raise UserError(f"{what}: {todo}")
    return True
