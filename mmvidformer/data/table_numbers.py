"""Numbers and times in tables of text."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mmvidformer.errors import UserError

WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
NUMBER = re.compile(r"[+-]?[0-9]+(?P<mark>[.,])(?P<digits>[0-9]+)")
TIME = re.compile(r"(?:([0-9]+):(?=[0-5]?[0-9]:))?([0-9]+):([0-5]?[0-9])(?:[.,]([0-9]+))?")
THOUSANDS = 3  # digits after a comma that may separate thousands


def has_decimal_commas(
    rows: Iterable[tuple[Mapping[Any, str], str]], columns: Sequence[str], separator: str
) -> bool:
    """Whether numbers have decimal commas; a ``UserError`` if that is not certain.

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
                raise UserError(f"{where} beside {other.rpartition(' ')[2]}: {what}")
            starts_with_zero = re.match("[+-]?0", number[0])
            is_sure |= len(number["digits"]) != THOUSANDS or bool(starts_with_zero)
    if "," in points and not is_sure:
        what = "the comma may separate decimals or thousands; write decimals with a point"
        raise UserError(f"{points[',']}: {what}")
    return "," in points


def as_seconds(text: str) -> str:
    """Return a time such as ``1:02:03.5`` as seconds, and other text as it is."""
    time = TIME.fullmatch(text)
    if not time:
        return text
    hours, minutes, seconds, decimals = time.groups()
    whole = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
    return f"{whole}.{decimals}" if decimals else str(whole)


def read_number(row: Mapping[str, str], column: str, where: str) -> int:
    """Read a whole number of a row; errors name file, line and value."""
    text = row[column] or ""
    if not WHOLE.fullmatch(text):
        raise UserError(f"{where}: {column} is {row[column]!r}, not a whole number")
    return int(text)


def read_float(row: Mapping[str, str], column: str, where: str) -> float:
    """Read a finite number of a row; errors name file, line and value."""
    try:
        value = float(row[column].replace("_", "?"))  # which Python allows between digits
    except (AttributeError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{where}: {column} must be a number, got {row[column]!r}")
    return value
