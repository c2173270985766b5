"""EPIC-Kitchens' public csv files, of EPIC-Kitchens-55 and -100.

Segments come in two forms. The official files have a header and times. RULSTM's lists
(github.com/fpv-iplab/rulstm, ``training.csv`` etc.) have no header, count frames at 30 per second,
and number the actions. Both give the same segments: RULSTM's first frame is ``floor(30 seconds)``
in double precision, but at least 1.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FPS = 30  # of the frames that segments are counted in
LIST_COLUMNS = ("narration_id", "video_id", "start", "stop", "verb", "noun", "action")


@dataclass(frozen=True)
class Segment:
    """An action of a video.

    Args:
        narration_id: Its id in the challenge's files.
        video_id: Its video.
        start: First frame, from 1, at 30 frames per second.
        label: Verb and noun, and the action if the file has it; None in the test sets.
        where: File and line, for messages.
    """

    narration_id: str
    video_id: str
    start: int
    label: tuple[int, ...] | None
    where: str


def read_rows(path: str | Path, *columns: str) -> Iterator[tuple[dict[str, str], str]]:
    """Read a csv file with a header.

    Args:
        path: The file.
        *columns: Columns that it must have.

    Yields:
        Each row, and its file and line for messages.

    Raises:
        ValueError: If a column is missing.
    """
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        missing = [name for name in columns if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{path} has no column {', '.join(missing)}, only {rows.fieldnames}")
        for row in rows:
            yield row, f"{path}, line {rows.line_num}"


def read_number(row: Mapping[str, str], column: str, where: str) -> int:
    """Read a whole number of a row.

    Raises:
        ValueError: If it is not a whole number; names file, line and value.
    """
    try:
        return int(row[column])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {column} is {row[column]!r}, not a whole number") from error


def read_segments(path: str | Path) -> list[Segment]:
    """Read an official csv file or a list of RULSTM's.

    Raises:
        ValueError: If a line has other fields than expected; names file and line.
    """
    with open(path, newline="", encoding="utf-8") as file:
        if "start_timestamp" in file.readline():
            rows = read_rows(path, "video_id", "start_timestamp")
            segments = [_official(row, where) for row, where in rows]
        else:
            file.seek(0)
            lines = csv.reader(file)
            segments = [_listed(line, f"{path}, line {lines.line_num}") for line in lines if line]
    if not segments:
        raise ValueError(f"{path} has no segments")
    return segments


def _official(row: dict[str, str], where: str) -> Segment:
    name = row.get("narration_id") or row.get("uid")  # EPIC-Kitchens-100 or -55
    if not name or not row["video_id"]:
        raise ValueError(f"{where}: no narration_id (or uid) or no video_id in {row}")
    try:
        hours, minutes, seconds = row["start_timestamp"].split(":")
        start = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except (AttributeError, ValueError) as error:
        time = row["start_timestamp"]
        raise ValueError(f"{where}: start_timestamp is {time!r}, not HH:MM:SS.SS") from error
    label = None
    if "verb_class" in row:
        label = tuple(read_number(row, name, where) for name in ("verb_class", "noun_class"))
    return Segment(_plain_id(name), row["video_id"], max(math.floor(start * FPS), 1), label, where)


def _listed(fields: list[str], where: str) -> Segment:
    if len(fields) not in (4, 7):
        raise ValueError(
            f"{where}: {len(fields)} fields in {fields}; expected {', '.join(LIST_COLUMNS)}, "
            "without the last three in a test set"
        )
    row = dict(zip(LIST_COLUMNS, (field.strip() for field in fields), strict=False))
    start = read_number(row, "start", where)
    if start < 1:
        raise ValueError(f"{where}: start is {start}, but frames are numbered from 1")
    label = tuple(read_number(row, name, where) for name in list(row)[4:])
    return Segment(_plain_id(row["narration_id"]), row["video_id"], start, label or None, where)


def _plain_id(name: str) -> str:
    """Remove leading zeros, which only RULSTM's lists of EPIC-Kitchens-55 have."""
    return str(int(name)) if name.isdigit() else name


def read_actions(path: str | Path) -> list[tuple[int, int]]:
    """Read verb and noun of each action from RULSTM's ``actions.csv``, whose ids count from 0.

    Raises:
        ValueError: If a column is missing, or the ids are not consecutive.
    """
    pairs: list[tuple[int, int]] = []
    for row, where in read_rows(path, "id", "verb", "noun"):
        number, verb, noun = (read_number(row, name, where) for name in ("id", "verb", "noun"))
        if number != len(pairs):
            raise ValueError(f"{where}: id is {number}, expected {len(pairs)}")
        pairs.append((verb, noun))
    return pairs


def read_frame_rates(path: str | Path) -> dict[str, float]:
    """Read the frames per second of each video from the official ``EPIC_100_video_info.csv``.

    Raises:
        ValueError: If a column is missing or a rate is not a positive number.
    """
    rates = {}
    for row, where in read_rows(path, "fps"):
        video = row.get("video_id") or row.get("video")  # EPIC-Kitchens-100 or -55
        if not video or not re.fullmatch(r"\d+(\.\d+)?", row["fps"] or "") or not float(row["fps"]):
            raise ValueError(f"{where}: no video with a positive frame rate in {row}")
        rates[video] = float(row["fps"])
    return rates
