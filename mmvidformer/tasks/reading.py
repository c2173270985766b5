"""What an annotation file says of each video, and what is wrong in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from mmvidformer.data.splits import SPLITS, split_of
from mmvidformer.data.tables import Row, Table
from mmvidformer.errors import UserError

MOST_CLASSES = 20  # that a message names
ReadRow = Callable[[Row, str], Sequence[Any]]  # what a row says; the second argument is its place


@dataclass
class Annotations:
    """What an annotation file says. Training refuses its first fault, ``data check`` prints all.

    Attributes:
        table: The rows of the file.
        names: Names of the values, if its columns are values.
        videos: What is said of each video, in the order of the file.
        rows: Rows without faults, as they stand in the file.
        places: File and line where each video is first named.
        splits: Split of each video, empty if the file states none.
        folds: Fold of which each video is the test; empty if there is none.
        groups: Group of each video, such as the person in it; empty if the file states none.
        durations: Seconds of each video whose file states them, of those that were looked into.
        faults: What is wrong, with file and line.
        repeated: Rows that say what an earlier one says, with file and line. They are left out.
    """

    table: Table
    names: tuple[str, ...] = ()
    videos: dict[str, list[Any]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    folds: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    durations: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    _firsts: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict, repr=False)

    @property
    def file(self) -> Path:
        """The file."""
        return self.table.file

    def check(self) -> Annotations:
        """Return the annotations, or raise a ``UserError`` with the first fault."""
        if self.faults:
            raise UserError(self.faults[0])
        return self

    def check_rows(self) -> Annotations:
        """Return the annotations, or raise a ``UserError`` if there is a fault, or no row."""
        if not self.check().rows:
            raise UserError(f"{self.file} has no rows")
        return self

    def add_rows(self, rows: Iterable[tuple[Row, str]], read_row: ReadRow) -> None:
        """Read rows. What ``read_row`` returns belongs to their video; a ``UserError`` is a fault.

        Args:
            rows: Rows with the column ``video``, perhaps with ``split``, ``fold``, ``group``, and
                their places.
            read_row: Reads what a row says of its video, such as a list of one segment.
        """
        first_places: dict[Any, str] = {}  # of what is said of each video
        for row, place in rows:
            try:
                self._add_row(row, place, read_row, first_places)
            except ValueError as error:
                self.faults.append(str(error))

    def _add_row(
        self, row: Row, place: str, read_row: ReadRow, first_places: dict[Any, str]
    ) -> None:
        video = row["video"]
        if not video:
            raise UserError(f"{place}: video is empty")
        video = self.table.local_path(video)
        if any(row.get(None, ())):  # what is beyond the last column
            raise UserError(f"{place}: it has more values than there are columns")
        row = {**row, "video": video}
        of_video = self.videos.setdefault(video, [])
        self.places.setdefault(video, place)
        self._add_split(row, place)
        annotations = read_row(row, place)
        is_new = not annotations
        for annotation in annotations:
            # The last field of a tuple is its place.
            said = video, annotation[:-1] if isinstance(annotation, tuple) else annotation
            if said in first_places:
                first = first_places[said].removeprefix(f"{self.file}, ")
                self.repeated.append(f"{place} repeats {first}")
                continue
            first_places[said] = place
            of_video.append(annotation)
            is_new = True
        if is_new:
            self.rows.append(row)

    def _add_split(self, row: Row, place: str) -> None:
        """Note split, fold and group of a video; a ``UserError`` if it, or its group, has two."""
        video, group = row["video"], row.get("group") or ""
        if self.groups.setdefault(video, group) != group:
            raise UserError(f"{place}: {video} is in two groups")
        stated = {"split": _read_split(row, place), "fold": _read_fold(row, place)}
        for (name, value), values in zip(stated.items(), (self.splits, self.folds), strict=True):
            if values.setdefault(video, value) != value:
                of_lists = "official" in row  # of several lists of splits
                hint = "; --only official=1 takes the first list" if of_lists else ""
                raise UserError(f"{place}: {video} is in two {name}s{hint}")
            first_value, first_place = self._firsts.setdefault((name, group), (value, place))
            if group and first_value != value:
                first = first_place.removeprefix(f"{self.file}, ")
                values_said = [f"{name} {x}" if x else f"no {name}" for x in (value, first_value)]
                where = f"{values_said[0]}, and in {values_said[1]} in {first}"
                raise UserError(f"{place}: group {group!r} is in {where}")

    def leave_out(self, reasons: Mapping[str, str]) -> None:
        """Leave out videos, and say why in ``table.skipped``."""
        self.table.skipped.update(reasons)
        self.rows = [row for row in self.rows if row["video"] not in reasons]
        for values in (self.videos, self.places, self.splits, self.folds, self.groups):
            for video in reasons:
                values.pop(video, None)

    def rows_by_split(self, splits: Mapping[str, str]) -> dict[str, list[Row]]:
        """Return the rows of each split, by the split of each video."""
        by_split: dict[str, list[Row]] = {split: [] for split in SPLITS}
        for row in self.rows:
            by_split[splits[row["video"]]].append(row)
        return by_split


def _read_split(row: Row, place: str) -> str:
    """Return the split that a row states, empty if none."""
    stated = row.get("split") or ""
    split = split_of(stated) if stated else ""
    if split is None:
        raise UserError(f"{place}: split must be train, val or test, got {stated!r}")
    return split


def _read_fold(row: Row, place: str) -> str:
    """Return the name of the fold that a row states, empty if none."""
    fold = re.sub(r"^([0-9]+)\.0$", r"\1", row.get("fold") or "")  # of numbers with gaps in pandas
    if not re.fullmatch(r"[A-Za-z0-9_-]*", fold):
        raise UserError(f"{place}: fold must be a number, or letters and digits, got {fold!r}")
    return fold


def unknown_class(name: str, classes: Iterable[str], place: str) -> str:
    """Say that a name is none of the classes."""
    return f"{place}: {name!r} is no class; they are {', '.join(islice(classes, MOST_CLASSES))}"
