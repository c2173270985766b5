"""Rows of csv files, with errors that name file, line and value."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def read_rows(
    path: str | Path, *columns: str, header: Sequence[str] | None = None
) -> Iterator[tuple[dict[str, str], str]]:
    """Read a csv file: each row, with its file and line for messages.

    ``header`` is for files without one. Raises a ``ValueError`` if one of ``columns`` is missing.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file, header, skipinitialspace=True)
        missing = [name for name in columns if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{path} has no column {', '.join(missing)}, only {rows.fieldnames}")
        for row in rows:
            yield row, f"{path}, line {rows.line_num}"


def read_number(row: Mapping[str, str], column: str, where: str) -> int:
    """Read a whole number of a row; errors name file, line and value."""
    try:
        return int(row[column])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {column} is {row[column]!r}, not a whole number") from error
