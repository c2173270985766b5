"""A folder of exports, without videos: one of each video, or of each split; also in folders."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from mmvidformer.data import importers
from mmvidformer.data.folders import ANNOTATIONS, is_video, walk_files
from mmvidformer.data.importers.export import Export


def recognize(export: Export) -> bool:
    """Whether a file of the folder is an export, and nothing below it a video."""
    path = export.path
    if not path.is_dir() or any(map(is_video, walk_files(str(path)))):
        return False
    return any(importers.recognize(export.part(file)) for file in _list_files(path))


def read(export: Export) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield the rows of all exports."""
    for file in _list_files(export.path):
        part = export.part(file)
        name = importers.recognize(part)
        if name is None:
            export.leave_out("other file")
            continue
        yield from importers.IMPORTERS[name].read(part)
        export.has_frames |= part.has_frames


def _list_files(folder: Path) -> list[Path]:
    files = map(Path, walk_files(str(folder)))
    return [path for path in files if path.suffix.lower() in ANNOTATIONS and path.is_file()]
