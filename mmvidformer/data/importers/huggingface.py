"""Folders of HuggingFace's ``datasets``: ``metadata.csv`` or ``metadata.jsonl`` beside the files.

``file_name`` is relative to the file. The other columns are as they are: ``label``, or another one
that ``--columns label=NAME`` names.
"""

from collections.abc import Iterator

from mmvidformer.data.importers.export import Export
from mmvidformer.data.splits import split_of
from mmvidformer.errors import UserError

FILE = "file_name"


def recognize(export: Export) -> bool:
    """Whether it is called metadata, and names files."""
    return export.path.stem == "metadata" and FILE in (export.columns or export.head)


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each file. A folder that is called as a split is one."""
    split = split_of(export.path.absolute().parent.name) or ""
    for row, place in _list_rows(export):
        columns = {name: value for name, value in row.items() if name not in (FILE, None)}
        yield {"split": split, **columns, "video": row[FILE]}, place


def _list_rows(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    if export.table is not None:
        yield from export.table.read(FILE)
        return
    for number, row in enumerate(export.json, start=1):
        place = f"{export.path}, row {number}"
        if not isinstance(row, dict) or FILE not in row:
            raise UserError(f"{place}: expected {FILE}, got {str(row)[:100]}")
        yield {name: "" if value is None else str(value) for name, value in row.items()}, place
