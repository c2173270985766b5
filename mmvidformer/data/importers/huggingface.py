"""Folders of HuggingFace's ``datasets``: ``metadata.csv`` or ``metadata.jsonl`` beside the files.

A folder may hold folders of splits, each with such a file. ``file_name`` is relative to it. The
other columns are as they are: ``label``, or another one that ``--columns label=NAME`` names.
"""

from collections.abc import Iterator
from pathlib import Path

from mmvidformer.data.importers.export import Export
from mmvidformer.data.splits import split_of
from mmvidformer.errors import UserError

NAMES = ("metadata.csv", "metadata.jsonl")
FILE = "file_name"


def recognize(export: Export) -> bool:
    """Whether a file is called metadata, and names files; or a folder has one."""
    if export.path.is_dir():
        return bool(_list_files(export.path))
    return export.path.name in NAMES and FILE in (export.columns or export.head)


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each file. A folder that is called as a split is one."""
    files = _list_files(export.path) if export.path.is_dir() else [export.path]
    for file in files:
        folder = file.absolute().parent
        split = split_of(folder.name) or ""
        for row, place in _list_rows(Export(file)):
            columns = {name: value for name, value in row.items() if name not in (FILE, None)}
            beside = folder / row[FILE]
            video = str(beside) if beside.is_file() else row[FILE]
            yield {"split": split, **columns, "video": video}, place


def _list_files(folder: Path) -> list[Path]:
    """Return the files of a folder, and of those in it that are called as splits."""
    folders = [folder, *(path for path in sorted(folder.iterdir()) if split_of(path.name))]
    files = [path / name for path in folders for name in NAMES]
    return [file for file in files if file.is_file()]


def _list_rows(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    if export.table is not None:
        yield from export.table.read(FILE)
        return
    for number, row in enumerate(export.json or (), start=1):
        place = f"{export.path}, row {number}"
        if not isinstance(row, dict) or FILE not in row:
            raise UserError(f"{place}: expected {FILE}, got {str(row)[:100]}")
        yield {name: "" if value is None else str(value) for name, value in row.items()}, place
