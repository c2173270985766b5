"""EPIC-Kitchens' public csv files, of EPIC-Kitchens-55 and -100.

Segments come in two forms. The official files have a header and times. RULSTM's lists
(github.com/fpv-iplab/rulstm, ``training.csv`` etc.) have no header, count frames at 30 per second,
and number the actions. Both give the same segments: RULSTM's first frame is ``floor(30 seconds)``
in double precision, but at least 1.
"""

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
    with open(path, encoding="utf-8") as file:
        official = "start_timestamp" in file.readline()
    columns, header = (("video_id", "start_timestamp"), None) if official else ((), LIST_COLUMNS)
    return [_segment(row, where) for row, where in read_rows(path, *columns, header=header)]


def _segment(row: dict[str, str], where: str) -> dict:
    name, video = row.get("narration_id") or row.get("uid"), row["video_id"]  # or EPIC-Kitchens-55
    if not name or not video:
        raise ValueError(f"{where}: no narration_id (or uid) or no video_id in {row}")
    if "start" in row:
        frame, classes = read_number(row, "start", where), LIST_COLUMNS[4:]
    else:
        time, classes = row["start_timestamp"], ("verb_class", "noun_class")
        try:
            hours, minutes, seconds = time.split(":")
            frame = int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * FPS)
        except (AttributeError, ValueError) as error:
            raise ValueError(f"{where}: start_timestamp is {time!r}, not HH:MM:SS.SS") from error
    labeled = row.get(classes[0]) is not None
    return {
        # Only RULSTM's lists of EPIC-Kitchens-55 have leading zeros.
        "narration_id": str(int(name)) if name.isdigit() else name,
        "video_id": video,
        "participant_id": video.split("_")[0],
        "action_start": max(frame, 1) / FPS,
        "label": tuple(read_number(row, c, where) for c in classes) if labeled else (),
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
        ValueError: If a column is missing or a rate is not a number.
    """
    rates = {}
    for row, where in read_rows(path, "fps"):
        try:
            rates[row.get("video_id") or row["video"]] = float(row["fps"])  # or EPIC-Kitchens-55
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{where}: no video with a frame rate in {row}") from None
    return rates
