"""Boxes of persons or objects at moments of videos, with their classes: AVA's annotations."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mmvidformer.data.table_numbers import read_float
from mmvidformer.data.tables import Row, Table, read_table
from mmvidformer.errors import UserError
from mmvidformer.tasks.reading import Annotations, unknown_class

COLUMNS = ("video", "time", "x1", "y1", "x2", "y2", "label", "track")
CORNERS = COLUMNS[2:6]
AVA_NAMES = {"second": "time", "class": "label", "person": "track"}  # in tables with a header
Corners = tuple[float, ...]
Moments = dict[tuple[str, float], dict[Corners, set]]  # classes of each box, by video and time


class Box(NamedTuple):
    """A box at a time of a video, with its class and the line of the file.

    Attributes:
        time: Time in seconds.
        corners: Left, top, right and bottom, as shares of width and height.
        label: Number of the class, from 1; its name if the classes are not known.
        track: Who or what it is, of the boxes of a video; empty if nobody says.
        where: File and line.
    """

    time: float
    corners: Corners
    label: int | str
    track: str
    where: str


def read_boxes(file: str | Path, classes: Sequence[str] = ()) -> Moments:
    """Return the classes of each box of each moment, which is a video and a time.

    Raises:
        UserError: If something is wrong in the file (``parse_boxes``); names file and line.
    """
    return group_boxes(parse_boxes(read_table(file), classes).check())


def group_boxes(annotations: Annotations) -> Moments:
    """Return the classes of each box of each moment, which is a video and a time."""
    moments: Moments = {}
    for video, boxes in annotations.videos.items():
        for box in boxes:
            of_moment = moments.setdefault((video, box.time), {})
            of_moment.setdefault(box.corners, set()).add(box.label)
    return moments


def parse_boxes(table: Table, classes: Sequence[str] = (), has_labels: bool = True) -> Annotations:
    """Read annotations of boxes, such as AVA's.

    Columns are ``COLUMNS``, in this order if there is no header as in AVA's files: name of the
    video, time in seconds, left, top, right and bottom as shares of width and height, name of the
    class or its number from 1, and perhaps the track. ``second``, ``class`` and ``person``, as AVA
    calls them, are understood. A box of several classes has several rows.

    Args:
        table: The rows of a file.
        classes: Names of the classes; empty if they are not known.
        has_labels: Whether boxes have classes; else a column of these is not looked at.
    """
    names = table.columns
    if "video" not in names or any(re.match("[-0-9.]", name) for name in names):
        table = table.without_header(COLUMNS)
    else:
        of_ava = [name for name in AVA_NAMES if name in names and AVA_NAMES[name] not in names]
        table = table.rename({AVA_NAMES[name]: name for name in of_ava})
    annotations = Annotations(table)
    needed = COLUMNS[:-1] if has_labels else COLUMNS[:-2]
    rows = table.read(*needed, numbers=CORNERS, times=("time",))
    numbers = {name: number for number, name in enumerate(classes, start=1)}

    def read_box(row: Row, place: str) -> list[Box]:
        box = _read_box(row, place)
        if has_labels:
            box = box._replace(label=_read_class(row["label"], place, numbers))
        return [box]

    annotations.add_rows(rows, read_box)
    return annotations


def _read_box(row: Row, place: str) -> Box:
    """Read a row but for its class; a ``UserError`` if the box is not inside the frame."""
    time = read_float(row, "time", place)
    x1, y1, x2, y2 = corners = tuple(read_float(row, name, place) for name in CORNERS)
    if time < 0:
        raise UserError(f"{place}: time must be at least 0, got {time:g}")
    if not (0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1):
        raise UserError(f"{place}: box must be x1 < x2 and y1 < y2 in 0 to 1, got {corners}")
    return Box(time, corners, "", row.get("track", ""), place)


def _read_class(label: str, place: str, numbers: Mapping[str, int]) -> int | str:
    """Return the number of a class, which is stated by name or number, or the name of one."""
    if label in numbers:
        return numbers[label]
    if not label:
        raise UserError(f"{place}: label is empty")
    if not re.fullmatch("-?[0-9]+", label):
        if numbers:
            raise UserError(unknown_class(label, numbers, place))
        return label
    number = int(label)
    if number < 1 or numbers and number > len(numbers):
        limit = len(numbers) or "..."
        raise UserError(f"{place}: label must be a class or in 1 to {limit}, got {number}")
    return number
