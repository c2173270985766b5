"""Boxes of videos that a file states, in place of a detector."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mmvidformer.data.folders import NamedVideos
from mmvidformer.data.tables import Table
from mmvidformer.tasks.boxes import Box, Corners, parse_boxes
from mmvidformer.tasks.imports import select_rows


class StatedBoxes(NamedTuple):
    """The boxes of a moment, as a file states them.

    Attributes:
        seconds: The moment.
        boxes: Left, top, right and bottom of each, as shares of width and height.
        tracks: The number of the person in each; None if nobody says.
    """

    seconds: float
    boxes: list[Corners]
    tracks: list[int | None]


class VideoBoxes:
    """Boxes of videos, which a file names with or without folder and suffix.

    Tracks that are not numbers are numbered as they come in a video, from 1.

    Attributes:
        has_tracks: Whether there is a track.

    Args:
        table: All that ``open_annotations`` reads of these videos.
        videos: The videos.

    Raises:
        UserError: If something is wrong in the file, it has no boxes of these videos, or boxes are
            of two videos of the same name.
    """

    def __init__(self, table: Table, videos: NamedVideos) -> None:
        annotations = parse_boxes(select_rows(table, ["box"]), has_labels=False).check()
        self.has_tracks = False
        self._moments: dict[Path | None, list[StatedBoxes]] = {}
        for name, boxes in annotations.videos.items():
            self.has_tracks |= any(box.track for box in boxes)
            self._moments[videos.find(name, prefix="")] = list_moments(boxes)

    def of(self, video: str | Path) -> list[StatedBoxes]:
        """Return the moments of a video, in the order of time."""
        return self._moments.get(Path(video), [])


def list_moments(boxes: Sequence[Box]) -> list[StatedBoxes]:
    """Return the moments of the boxes of a video, in the order of time; of a box, the first row."""
    names = dict.fromkeys(box.track for box in boxes if box.track)
    are_numbers = all(re.fullmatch("[0-9]{1,9}", name) for name in names)
    numbers = {name: int(name) if are_numbers else place for place, name in enumerate(names, 1)}
    tracks: dict[float, dict[Corners, int | None]] = {}
    for box in boxes:
        tracks.setdefault(box.time, {}).setdefault(box.corners, numbers.get(box.track))
    return [
        StatedBoxes(time, list(of_moment), list(of_moment.values()))
        for time, of_moment in sorted(tracks.items())
    ]
