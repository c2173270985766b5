import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def read_rows(
    path: str | Path, *columns: str, header: Sequence[str] | None = None
) -> Iterator[tuple[dict[str, str], str]]:
    """Read a csv file: each row, with its file and line for messages.

    ``header`` is for files without one. Raises a ``ValueError`` if one of ``columns`` is missing,
    or it is no csv file.
    """
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""), header, skipinitialspace=True)
    try:
        missing = [name for name in columns if name not in (rows.fieldnames or ())]
        if missing:
            found = str(rows.fieldnames)[:200]
            raise ValueError(f"{path} has no column {', '.join(missing)}, only {found}")
        for row in rows:
            yield row, f"{path}, line {rows.line_num}"
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num + 1}: {error}") from error


def read_text(path: str | Path) -> str:
    """Read UTF-8 text, with or without a byte order mark; errors name the file."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8: {error}") from error


def read_number(row: Mapping[str, str], column: str, where: str) -> int:
    """Read a whole number of a row; errors name file, line and value."""
    try:
        return int(row[column])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {column} is {row[column]!r}, not a whole number") from error
