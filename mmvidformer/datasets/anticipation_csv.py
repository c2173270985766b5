"""The public csv files of EPIC-Kitchens' anticipation task, in both forms that exist.

RULSTM's lists (github.com/fpv-iplab/rulstm, ``training.csv`` and its kind) have no header, count
frames at 30 a second, and name the action; fields of EPIC-Kitchens-55 have spaces in front. The
official files have a header and times. Both give the same segments: RULSTM's first frame is
``floor(30 seconds)`` in double precision, but at least 1.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FPS = 30  # of the frames that segments are counted in

LIST_COLUMNS = ("narration_id", "video_id", "start", "stop", "verb", "noun", "action")


@dataclass(frozen=True)
class Segment:
    """An action of a video.

    Args:
        narration_id: Its name in the challenge's files.
        video_id: Its video.
        start: First frame, from 1, at 30 frames a second.
        label: Verb and noun, and the action if the file names it; None in the test sets.
        where: File and line, for messages.
    """

    narration_id: str
    video_id: str
    start: int
    label: tuple[int, ...] | None
    where: str

    @property
    def participant_id(self) -> str:
        """Who made the video."""
        return self.video_id.split("_")[0]


def read_segments(path: str | Path) -> list[Segment]:
    """Read a list of RULSTM's or an official csv file, of EPIC-Kitchens-55 or -100.

    Raises:
        ValueError: If a line has other fields than expected; the message gives file and line.
    """
    with open(path, newline="", encoding="utf-8") as file:
        header = next(csv.reader(file), [])
        if "start_timestamp" in header:
            rows = csv.DictReader(file, header)
            segments = [_official(row, f"{path}, line {rows.line_num + 1}") for row in rows]
        else:
            file.seek(0)
            rows = csv.reader(file)
            segments = [_listed(row, f"{path}, line {rows.line_num}") for row in rows if row]
    if not segments:
        raise ValueError(f"{path} has no segments")
    return segments


def read_actions(path: str | Path) -> list[tuple[int, int]]:
    """Read the (verb, noun) of each action from ``actions.csv``, whose ids count from 0.

    Raises:
        ValueError: If a column is missing, or a line is not the action that it should be.
    """
    pairs: list[tuple[int, int]] = []
    for row, where in _rows(path, ("id", "verb", "noun")):
        number, verb, noun = (_number(row[name], name, where) for name in ("id", "verb", "noun"))
        if number != len(pairs):
            raise ValueError(f"{where}: action {number} where {len(pairs)} should follow")
        pairs.append((verb, noun))
    return pairs


def read_frame_rates(path: str | Path) -> dict[str, float]:
    """Read the frames a second of each video from the official ``EPIC_100_video_info.csv``.

    Raises:
        ValueError: If a column is missing or a rate is no positive number.
    """
    rates = {}
    for row, where in _rows(path, ("fps",)):
        video = row.get("video_id") or row.get("video")  # EPIC-Kitchens-100 or -55
        try:
            rates[video] = float(row["fps"])
        except (TypeError, ValueError):
            rates[video] = 0.0
        if not video or not rates[video] > 0:
            raise ValueError(f"{where}: no video with its positive frame rate in {row}")
    return rates


def _rows(path: str | Path, columns: tuple[str, ...]) -> Iterator[tuple[dict[str, str], str]]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        missing = [name for name in columns if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{path} has no column {', '.join(missing)}, found {rows.fieldnames}")
        for row in rows:
            yield row, f"{path}, line {rows.line_num}"


def _listed(row: list[str], where: str) -> Segment:
    if len(row) not in (4, 7):
        raise ValueError(
            f"{where}: {len(row)} fields in {row}; expected {', '.join(LIST_COLUMNS)}, "
            "without the last three in a test set"
        )
    fields = dict(zip(LIST_COLUMNS, (field.strip() for field in row), strict=False))
    start = _number(fields["start"], "start", where)
    if start < 1:
        raise ValueError(f"{where}: start {start}; frames count from 1")
    label = tuple(_number(fields[name], name, where) for name in LIST_COLUMNS[4 : len(row)])
    name = _plain_id(fields["narration_id"])
    return Segment(name, fields["video_id"], start, label or None, where)


def _official(row: dict[str, str], where: str) -> Segment:
    name = row.get("narration_id") or row.get("uid")  # EPIC-Kitchens-100 or -55
    if not name or not row.get("video_id"):
        raise ValueError(f"{where}: no narration_id (or uid) or no video_id in {row}")
    start = max(math.floor(_seconds(row["start_timestamp"], where) * FPS), 1)
    label = None
    if "verb_class" in row:
        label = tuple(_number(row[c], c, where) for c in ("verb_class", "noun_class"))
    return Segment(_plain_id(name), row["video_id"], start, label, where)


def _plain_id(name: str) -> str:
    """Without the zeros in front that only RULSTM's lists of EPIC-Kitchens-55 have."""
    return str(int(name)) if name.isdigit() else name


def _number(text: str | None, name: str, where: str) -> int:
    try:
        return int(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {name} is {text!r}, not a whole number") from error


def _seconds(time: str | None, where: str) -> float:
    try:
        hours, minutes, seconds = time.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{where}: start_timestamp is {time!r}, not HH:MM:SS.SS") from error
