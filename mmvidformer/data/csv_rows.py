import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SEPARATORS = {";": "semicolons", "\t": "tabs"}  # that spreadsheets write, too


def read_rows(
    path: str | Path, *columns: str, header: Sequence[str] | None = None
) -> Iterator[tuple[dict[str, str], str]]:
    """Read a csv file: each row, with its file and line for messages.

    Spaces at the ends of names and values do not count, nor do rows without values. ``header`` is
    for files without one. Raises a ``ValueError`` if one of ``columns`` is missing, a column is
    there twice, or it is no csv file.
    """
    rows = _open(path, header)
    names = rows.fieldnames
    missing = [name for name in columns if name not in names]
    if missing:
        what = f"{path} has no column {', '.join(missing)}, only {str(names)[:200]}"
        for separator, name in SEPARATORS.items():
            if len(names) == 1 and separator in names[0]:
                what = f"{path} has {name} between its columns, which must be commas"
        raise ValueError(what)
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise ValueError(f"{path} has the column {repeated[0]!r} twice")
    try:
        for row in rows:
            # A row that is too short has None, one that is too long a list.
            values = {k: v.strip() if isinstance(v, str) else v for k, v in row.items()}
            if any(map(bool, values.values())):
                yield values, f"{path}, line {rows.line_num}"
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num + 1}: {error}") from error


def read_header(path: str | Path) -> list[str]:
    """Read the names of the columns of a csv file; a ``ValueError`` if it is none."""
    return list(_open(path, None).fieldnames)


def _open(path: str | Path, header: Sequence[str] | None) -> csv.DictReader:
    content = io.StringIO(read_text(path), newline="")
    rows = csv.DictReader(content, header, skipinitialspace=True)
    try:
        rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num + 1}: {error}") from error
    return rows


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


def read_float(row: Mapping[str, str], column: str, where: str) -> float:
    """Read a finite number of a row; errors name file, line and value."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: {column} must be a number, got {row[column]!r}")
    return value
