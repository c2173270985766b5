"""Tables of text, whatever program wrote them: Excel, LibreOffice, R, pandas."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmvidformer.data.text import read_text

# Columns whose names may have capitals.
KNOWN = frozenset(
    ("video", "label", "start", "end", "split", "group", "fold")
    + ("time", "x1", "y1", "x2", "y2", "track")
)
SEPARATORS = (",", ";", "\t")
STATED_SEPARATOR = re.compile(r"sep=([,;\t])\r?\n")  # Excel's first line
INDEX_NAMES = ("", "Unnamed: 0")  # of pandas' column of row numbers
NUMBER = re.compile(r"[+-]?[0-9]+(?P<mark>[.,])(?P<digits>[0-9]+)")
TIME = re.compile(r"(?:([0-9]+):(?=[0-5]?[0-9]:))?([0-9]+):([0-5]?[0-9])(?:[.,]([0-9]+))?")
THOUSANDS = 3  # digits after a comma that may separate thousands
Row = dict[Any, Any]  # text by the name of the column; under None what is beyond the last column


def read_rows(
    path: str | Path,
    *columns: str,
    header: Sequence[str] | None = None,
    numbers: Collection[str] = (),
    times: Collection[str] = (),
) -> Iterator[tuple[Row, str]]:
    """Read a table: each row, with its file and line for messages.

    Text is in UTF-8, UTF-16 or Windows-1252 (``read_text``). Columns are separated by commas,
    semicolons or tabs. Spaces at the ends of names and values do not count, nor do capitals in
    names of ``KNOWN`` and of ``columns``, nor rows and columns without values.

    Args:
        path: The file.
        *columns: Columns that it must have.
        header: Names of the columns of a file without a first row of names.
        numbers: Columns of numbers. A decimal comma becomes a point.
        times: Columns of numbers or times, ``mm:ss`` or ``hh:mm:ss.mmm``, which become seconds.

    Raises:
        ValueError: If a column is missing or there twice, it is no table, or a comma in a number
            may separate decimals or thousands.
    """
    table = _read_table(path, header, columns)
    missing = [name for name in columns if name not in table.names]
    if missing:
        shown = str([name for name in table.names if name])[:200]
        raise ValueError(f"{path} has no column {', '.join(missing)}, only {shown}")
    if repeated := [name for name, count in Counter(table.names).items() if name and count > 1]:
        raise ValueError(f"{path} has the column {repeated[0]!r} twice")
    rows = [(_fill_row(table.names, values), f"{path}, line {line}") for line, values in table.rows]
    has_commas = _has_decimal_commas(rows, (*numbers, *times), table.separator)
    for row, place in rows:
        for name in times:
            if name in row:
                row[name] = _seconds(row[name])
        for name in (*numbers, *times) if has_commas else ():
            if NUMBER.fullmatch(row.get(name, "")):
                row[name] = row[name].replace(",", ".")
        yield row, place


def read_header(path: str | Path) -> list[str]:
    """Read the names of the columns of a table; a ``ValueError`` if it is none."""
    return [name for name in _read_table(path, None, (), header_only=True).names if name]


class _Table(NamedTuple):
    """Names of the columns, empty if a column has none, and rows with their line."""

    names: list[str]
    rows: list[tuple[int, list[str]]]
    separator: str


def _read_table(
    path: str | Path,
    header: Sequence[str] | None,
    columns: Iterable[str],
    header_only: bool = False,
) -> _Table:
    text = read_text(path)
    stated = STATED_SEPARATOR.match(text)
    separator = stated[1] if stated else _find_separator(text)
    lines = io.StringIO(text, newline="")
    skipped = 0
    if stated:
        lines.seek(stated.end())
        skipped = 1
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    rows = []
    line = skipped + 1
    try:
        for values in reader:
            values = [value.strip() for value in values]
            if any(values):
                rows.append((skipped + reader.line_num, values))
            line = skipped + reader.line_num + 1
            if rows and header_only:
                break
    except csv.Error as error:
        raise ValueError(f"{path}, line {line}: {error}") from error
    if header is not None:
        return _Table([*header], rows, separator)
    first = rows.pop(0)[1] if rows else []
    wanted = {name.lower(): name for name in (*KNOWN, *columns)}
    names = [" ".join(name.split()) for name in first]
    names = [wanted.get(name.lower(), name) for name in names]
    if names and names[0] in INDEX_NAMES:
        names = names[1:]
        rows = [(number, values[1:]) for number, values in rows]
    return _Table(names, rows, separator)


def _find_separator(text: str) -> str:
    """Return the separator that makes the most columns of the first line."""
    first = text.lstrip().partition("\n")[0]
    counts = {}
    for separator in SEPARATORS:
        outside_quotes = re.sub(r'"[^"]*"', "", first)
        counts[separator] = outside_quotes.count(separator)
    return max(SEPARATORS, key=counts.__getitem__)


def _fill_row(names: Sequence[str], values: Sequence[str]) -> Row:
    """Return values by name. Those that a row lacks are empty, those without a name under None."""
    row: Row = {name: "" for name in names if name}
    nameless = [*values[len(names) :]]
    for name, value in zip(names, values, strict=False):
        if name:
            row[name] = value
        else:
            nameless.append(value)
    if any(nameless):
        row[None] = nameless
    return row


def _has_decimal_commas(
    rows: Iterable[tuple[Row, str]], columns: Sequence[str], separator: str
) -> bool:
    """Whether numbers have decimal commas; a ``ValueError`` if that is not certain.

    Between semicolons they have, as nobody else needs semicolons. Between other separators a
    number must show it, such as ``0,25``: ``1,250`` may have a thousand.
    """
    points: dict[str, str] = {}  # place of the first number with a point, and with a comma
    is_sure = separator == ";"
    for row, place in rows:
        for name in columns:
            number = NUMBER.fullmatch(row.get(name, ""))
            if not number:
                continue
            where = f"{place}, column {name}: {number[0]}"
            points.setdefault(number["mark"], where)
            if len(points) == 2:
                other = points["." if number["mark"] == "," else ","]
                what = "one has a decimal comma, the other a point, or thousands are separated"
                raise ValueError(f"{where} beside {other.rpartition(' ')[2]}: {what}")
            starts_with_zero = re.match("[+-]?0", number[0])
            is_sure |= len(number["digits"]) != THOUSANDS or bool(starts_with_zero)
    if "," in points and not is_sure:
        what = "the comma may separate decimals or thousands; write decimals with a point"
        raise ValueError(f"{points[',']}: {what}")
    return "," in points


def _seconds(text: str) -> str:
    """Return a time such as ``1:02:03.5`` as seconds, and other text as it is."""
    time = TIME.fullmatch(text)
    if not time:
        return text
    hours, minutes, seconds, decimals = time.groups()
    whole = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
    return f"{whole}.{decimals}" if decimals else str(whole)


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
