"""EPIC-Kitchens' public csv files, of EPIC-Kitchens-55 and -100.

Segments come in two forms. The official files have a header and times. RULSTM's lists
(github.com/fpv-iplab/rulstm, ``training.csv`` etc.) have no header, count frames at 30 per second,
and number the actions. Both give the same segments: RULSTM's first frame is ``floor(30 seconds)``
in double precision, but at least 1.
"""

import csv
import math
from pathlib import Path

from mmvidformer.datasets.csv_rows import read_number, read_rows

FPS = 30  # of the frames that segments are counted in
LIST_COLUMNS = ("narration_id", "video_id", "start", "stop", "verb", "noun", "action")


def read_segments(path: str | Path) -> list[dict]:
    """Read an official csv file or a list of RULSTM's.

    Returns:
        For each segment ``narration_id``, ``video_id``, ``participant_id``, ``action_start``
        (seconds), ``label`` (verb and noun, and the action if the file has it; empty in test sets),
        and ``where`` (file and line, for messages).

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


def _official(row: dict[str, str], where: str) -> dict:
    name = row.get("narration_id") or row.get("uid")  # EPIC-Kitchens-100 or -55
    if not name or not row["video_id"]:
        raise ValueError(f"{where}: no narration_id (or uid) or no video_id in {row}")
    try:
        hours, minutes, seconds = row["start_timestamp"].split(":")
        start = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except (AttributeError, ValueError) as error:
        time = row["start_timestamp"]
        raise ValueError(f"{where}: start_timestamp is {time!r}, not HH:MM:SS.SS") from error
    columns = ("verb_class", "noun_class") if "verb_class" in row else ()
    label = tuple(read_number(row, column, where) for column in columns)
    return _segment(name, row["video_id"], max(math.floor(start * FPS), 1), label, where)


def _listed(fields: list[str], where: str) -> dict:
    if len(fields) not in (4, 7):
        raise ValueError(
            f"{where}: {len(fields)} fields in {fields}; expected {', '.join(LIST_COLUMNS)}, "
            "without the last three in a test set"
        )
    row = dict(zip(LIST_COLUMNS, (field.strip() for field in fields), strict=False))
    start = read_number(row, "start", where)
    if start < 1:
        raise ValueError(f"{where}: start is {start}, but frames are numbered from 1")
    label = tuple(read_number(row, column, where) for column in list(row)[4:])
    return _segment(row["narration_id"], row["video_id"], start, label, where)


def _segment(name: str, video: str, start: int, label: tuple[int, ...], where: str) -> dict:
    return {
        # Only RULSTM's lists of EPIC-Kitchens-55 have leading zeros.
        "narration_id": str(int(name)) if name.isdigit() else name,
        "video_id": video,
        "participant_id": video.split("_")[0],
        "action_start": start / FPS,
        "label": label,
        "where": where,
    }


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
        rate = row["fps"] or ""
        if not video or not rate.replace(".", "", 1).isdigit() or not float(rate):
            raise ValueError(f"{where}: no video with a positive frame rate in {row}")
        rates[video] = float(rate)
    return rates
