"""Folders of classes, ``CLASS/.../VIDEO``, perhaps in folders of splits, ``SPLIT/CLASS/.../VIDEO``.

The names of splits are those of ``SPLIT_NAMES``.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mmvidformer.data.folders import find_names, list_folders
from mmvidformer.data.importers.export import Export
from mmvidformer.data.lists import MOST_FAULTS, say_count
from mmvidformer.data.splits import split_of
from mmvidformer.errors import UserError
from mmvidformer.storage.targets import identity_of


def recognize(export: Export) -> bool:
    """Whether it is a folder. It comes last: folders of exports, and those with lists, are more."""
    return export.path.is_dir()


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each video. A link to another one is left out.

    Raises:
        FileNotFoundError: If there are no videos.
        UserError: If none is in a class's folder, only some of the folders are splits, or a file is
            in two classes or splits.
    """
    folder = export.path
    names = find_names(folder)
    has_splits = _has_splits(folder, sorted({name.split("/")[0] for name in names if "/" in name}))
    firsts: dict[object, tuple[str, list[str]]] = {}  # name and folders, by file
    faults = []
    for name in names:
        folders = name.split("/")[: 1 + has_splits]
        video = str(folder / name)
        if name.count("/") < 1 + has_splits:
            export.skipped[video] = "it is in no folder of a class"
            continue
        if not (folder / name).is_file():
            export.skipped[video] = "it is no file, or a link to nothing"
            continue
        first, first_folders = firsts.setdefault(identity_of(video), (name, folders))
        if first != name:
            export.skipped[video] = f"it is the same file as {folder / first}"
            if first_folders != folders:
                faults.append(f"{video}: {export.skipped[video]}, in another class or split")
    if faults:
        more = [f"and {len(faults) - MOST_FAULTS} more"] * (len(faults) > MOST_FAULTS)
        raise UserError("\n".join([*faults[:MOST_FAULTS], *more]))
    if not firsts:
        form = "SPLIT/CLASS/VIDEO" if has_splits else "CLASS/VIDEO"
        outside = f"{folder} has no {form}, only {say_count(len(names), 'video')} outside"
        raise UserError(f"{outside}; move each to a folder of its class, or give a csv video,label")
    labels = {folders[-1] for _, folders in firsts.values()}
    splits = [folder / name for name in list_folders(folder) if split_of(name)]
    for parent in splits if has_splits else [folder]:
        for label in {*list_folders(parent)} - labels:
            export.skipped[str(parent / label)] = "this folder of a class has no videos"
    for name, folders in firsts.values():
        video = str((folder / name).absolute())
        split = {"split": split_of(folders[0]) or ""} if has_splits else {}
        yield {"video": video, "label": folders[-1], **split}, video


def _has_splits(folder: Path, names: Sequence[str]) -> bool:
    """Whether folders are those of splits; a ``UserError`` if only some of them are."""
    splits = [name for name in names if split_of(name)]
    classes = [name for name in names if not split_of(name)]
    if splits and classes:
        what = f"{folder} has the folder {splits[0]} of a split beside {', '.join(classes[:5])}"
        todo = "put all classes into folders of splits, or rename it if it is a class"
        raise UserError(f"{what}: {todo}")
    return bool(splits)
