"""Tables of text, whatever program wrote them: Excel, LibreOffice, R, pandas."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PureWindowsPath
from typing import Any

from mmvidformer.data.table_numbers import NUMBER, as_seconds, has_decimal_commas
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError

# Columns whose names may have capitals.
KNOWN = frozenset(
    ("video", "label", "start", "end", "split", "group", "fold")
    + ("time", "x1", "y1", "x2", "y2", "track")
)
SEPARATORS = (",", ";", "\t")
STATED_SEPARATOR = re.compile(r"sep=([,;\t])\r?\n")  # Excel's first line
INDEX_NAMES = ("", "Unnamed: 0")  # of pandas' column of row numbers
MOST_SHOWN = 200  # characters of the columns and values that a message names
Row = dict[Any, Any]  # text by the name of the column; under None what is beyond the last column


@dataclass
class Table:
    """Rows of text under names of columns, read from a file of any format.

    Attributes:
        file: The file.
        names: Names of the columns; empty if a column has none.
        rows: Values of each row, and its file and line for messages.
        folder: Folder that paths of videos are relative to.
        separator: What separates the columns in the file.
        header: The first row as it stands in the file.
        importer: Name of the importer that read it; empty for tables of text.
        skipped: Why videos of an export are left out, by their names.
        left_out: What else of an export was left out, with its number.
    """

    file: Path
    names: list[str]
    rows: list[tuple[list[str], str]]
    folder: Path
    separator: str = ","
    header: tuple[list[str], str] | None = None
    importer: str = ""
    skipped: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that have one."""
        return [name for name in self.names if name]

    def without_header(self, names: Sequence[str]) -> Table:
        """Return the table of a file whose first row is one of values, with names of columns."""
        rows = self.rows if self.header is None else [self.header, *self.rows]
        return replace(self, names=[*names], rows=rows, header=None)

    def select(self, pairs: Iterable[tuple[str, str]]) -> Table:
        """Return the rows that have a value in a column, or one of several; count the others.

        Raises:
            UserError: If there is no such column, or no row has the value.
        """
        wanted: dict[str, set[str]] = {}
        for column, value in pairs:
            wanted.setdefault(column, set()).add(value)
        rows, left_out = self.rows, Counter(self.left_out)
        for column, values in wanted.items():
            if column not in self.names:
                what = f"{self.file} has no column {column!r}"
                raise UserError(f"{what}, only {self._shown_columns()}")
            place = self.names.index(column)
            counts = Counter(row[place] for row, _ in self.rows if place < len(row))
            if missing := sorted(values.difference(counts)):
                known = ", ".join(map(repr, counts))
                what = f"{self.file} has no row with {column} {missing[0]!r}"
                raise UserError(f"{what}, only {known[:MOST_SHOWN]}")
            kept = [row for row in rows if row[0][place : place + 1] and row[0][place] in values]
            left_out[f"row of another {column}"] += len(rows) - len(kept)
            rows = kept
        return replace(self, rows=rows, left_out=left_out)

    def rename(self, columns: Mapping[str, str]) -> Table:
        """Return a table with other names of columns: the name here by the new name.

        A column that had the new name is left out. A column may get several names.

        Raises:
            UserError: If there is no such column.
        """
        new_names: dict[str, list[str]] = {}
        for new, old in columns.items():
            new_names.setdefault(" ".join(old.split()), []).append(new)
        for old in new_names:
            if old not in self.names:
                raise UserError(f"{self.file} has no column {old!r}, only {self._shown_columns()}")
        names, places = [], []  # of the columns that stay, some of them twice
        for place, name in enumerate(self.names):
            kept = new_names.get(name, [] if name in columns else [name])
            names += kept
            places += [place] * len(kept)
        rows = []
        for values, where in self.rows:
            beyond = values[len(self.names) :]
            named = [values[place] for place in places if place < len(values)]
            rows.append(([*named, *beyond], where))
        return replace(self, names=names, rows=rows)

    def read(
        self, *columns: str, numbers: Collection[str] = (), times: Collection[str] = ()
    ) -> Iterator[tuple[Row, str]]:
        """Read the rows: values by name, and file and line.

        Capitals in the names of ``columns`` do not count.

        Args:
            *columns: Columns that it must have.
            numbers: Columns of numbers. A decimal comma becomes a point.
            times: Columns of numbers or times, ``mm:ss`` or ``hh:mm:ss.mmm``, which become seconds.

        Raises:
            UserError: If a column is missing or there twice, or a comma in a number may separate
                decimals or thousands.
        """
        wanted = {name.lower(): name for name in columns}
        names = [wanted.get(name.lower(), name) for name in self.names]
        if missing := [name for name in columns if name not in names]:
            where = self.header[1] if self.header else self.file
            shown = f"only {self._shown_columns()}"
            raise UserError(f"{where} has no column {', '.join(missing)}, {shown}")
        counts = Counter(name for name in names if name)
        if repeated := [name for name, count in counts.items() if count > 1]:
            raise UserError(f"{self.file} has the column {repeated[0]!r} twice")
        rows = [(_fill_row(names, values), place) for values, place in self.rows]
        has_commas = has_decimal_commas(rows, (*numbers, *times), self.separator)
        for row, place in rows:
            for name in times:
                if name in row:
                    row[name] = as_seconds(row[name])
            for name in (*numbers, *times) if has_commas else ():
                if NUMBER.fullmatch(row.get(name, "")):
                    row[name] = row[name].replace(",", ".")
            yield row, place

    def local_path(self, video: str) -> str:
        """Return the path that a path of Windows means here: with ``/``, or the file beside us."""
        if "\\" not in video or (self.folder / video).exists():
            return video
        path = PureWindowsPath(video)
        if path.is_absolute() and (self.folder / path.name).exists():
            return path.name
        return path.as_posix()

    def _shown_columns(self) -> str:
        return str(self.columns)[:MOST_SHOWN]


def read_rows(
    path: str | Path, *columns: str, header: Sequence[str] | None = None
) -> Iterator[tuple[Row, str]]:
    """Read the rows of a table of text (``read_table``, ``Table.read``).

    Args:
        path: The file.
        *columns: Columns that it must have.
        header: Names of the columns of a file without a first row of names.
    """
    table = read_table(path)
    if header is not None:
        table = table.without_header(header)
    return table.read(*columns)


def read_table(path: str | Path, folder: str | Path | None = None) -> Table:
    """Read a table of text: in UTF-8, UTF-16 or Windows-1252 (``read_text``).

    Columns are separated by commas, semicolons or tabs. Spaces at the ends of names and values do
    not count, nor do capitals in names of ``KNOWN``, nor rows and columns without values.

    Args:
        path: The file.
        folder: Folder that paths of videos are relative to. Default: that of the file.

    Raises:
        UserError: If it is no table.
    """
    separator, rows = _split_lines(path)
    folder = Path(path).parent if folder is None else Path(folder)
    if not rows:
        return Table(Path(path), [], [], folder, separator)
    header = rows.pop(0)
    known = {name.lower(): name for name in KNOWN}
    names = [" ".join(name.split()) for name in header[0]]
    names = [known.get(name.lower(), name) for name in names]
    has_index = bool(names) and names[0] in INDEX_NAMES
    if has_index:
        names, header = names[1:], (header[0][1:], header[1])
    if has_index or _has_numbers_before(names, rows):
        rows = [(values[1:], place) for values, place in rows]
    return Table(Path(path), names, rows, folder, separator, header)


def _has_numbers_before(names: Sequence[str], rows: Sequence[tuple[list[str], str]]) -> bool:
    """Whether each row begins with its number, which has no name: R writes such tables."""
    return bool(rows) and all(
        len(values) == len(names) + 1 and values[0] == str(number)
        for number, (values, _) in enumerate(rows, start=1)
    )


def _split_lines(path: str | Path) -> tuple[str, list[tuple[list[str], str]]]:
    """Return the separator, and values and place of each row that has values."""
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
                rows.append((values, f"{path}, line {skipped + reader.line_num}"))
            line = skipped + reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {line}: {error}") from error
    for values, place in rows:
        others = [mark for mark in SEPARATORS if mark != separator and mark in values[0]]
        if others and len(values) == 1 < len(rows[0][0]):
            what = f"the first line has {separator!r} between its columns, this one {others[0]!r}"
            raise UserError(f"{place}: {what}")
    return separator, rows


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
