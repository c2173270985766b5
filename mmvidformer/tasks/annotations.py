"""Annotations of spans of time in csv files, and what reads them: classes of seconds of videos."""

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from mmvidformer.data.table_numbers import read_float
from mmvidformer.data.tables import Row, Table, read_table
from mmvidformer.tasks.reading import Annotations, unknown_class

BACKGROUND = "background"  # class of the time that no span covers
COLUMNS = ("video", "start", "end", "label")
MOMENT_COLUMNS = ("video", "time", "label")
MOST_NAMES = 5  # of videos that a warning names


class Span(NamedTuple):
    """A part of a video, in seconds, with the name of its class and the line of the file."""

    start: float
    end: float
    label: str
    where: str


def read_spans(file: str | Path, overlap: bool = False) -> dict[str, list[Span]]:
    """Return the spans, or moments, of each video of a csv file, in order.

    Raises:
        UserError: If something is wrong in the file (``parse_spans``); names file and line.
    """
    return parse_spans(read_table(file), overlap, moments=overlap).check().videos


def match_spans(table: Table, videos: Iterable[str]) -> dict[str, list[Span]]:
    """Return the spans, or moments, of videos by path; a warning names a video without any.

    Names in the table are relative to its folder. A name without such a file is that of the only
    video whose file is called so.

    Raises:
        UserError: As ``read_spans``.
    """
    spans = parse_spans(table, overlap=True, moments=True).check().videos
    by_path = {(table.folder / name).resolve(): name for name in spans}
    by_name, videos = defaultdict(list), [*videos]
    for name in spans:
        by_name[PureWindowsPath(name).name].append(name)
    counts = Counter(Path(video).name for video in videos)
    spans_of: dict[str, list[Span]] = {}
    for video in videos:
        path = Path(video)
        names = by_name[path.name] if counts[path.name] == 1 else []
        if path.resolve() in by_path:
            names = [by_path[path.resolve()]]
        if len(names) == 1:
            spans_of[video] = spans[names[0]]
        else:
            known = ", ".join([*spans][:MOST_NAMES]) or "no video"
            print(f"{table.file} has no rows for {video}; it has those of {known}", file=sys.stderr)
    return spans_of


def parse_spans(
    table: Table, overlap: bool = False, classes: Sequence[str] = (), moments: bool = False
) -> Annotations:
    """Read a table with the columns ``video``, ``start``, ``end`` (seconds) and ``label``.

    Of moments, start and end are equal; a column ``time`` may stand for both. A row with a video
    alone is a video without a span. The spans of each video are in order.

    Args:
        table: The rows of a file.
        overlap: Whether spans of a video may overlap.
        classes: Names of the classes; empty if all names are allowed.
        moments: Whether spans may have no length.

    Raises:
        UserError: If the table has not these columns.
    """
    annotations = Annotations(table)
    columns = MOMENT_COLUMNS if moments and "time" in table.columns else COLUMNS
    annotations.add_rows(table.read(*columns, times=columns[1:-1]), _read_span)
    for video, spans in annotations.videos.items():
        annotations.videos[video] = sorted(spans)
    known = dict.fromkeys(classes)  # in order, and found at once
    for spans in annotations.videos.values():
        annotations.faults += _span_faults(spans, overlap, known, moments)
    return annotations


def _read_span(row: Row, place: str) -> list[Span]:
    """Read the span of a row, if it has one; raises a ``UserError`` if a time is no number."""
    has_time = bool(row.get("time")) or "start" not in row
    columns = ("time", "time") if has_time else ("start", "end")
    if not any(row[name] for name in (*columns, "label")):
        return []
    start, end = (read_float(row, name, place) for name in columns)
    return [Span(start, end, row["label"] or "", place)]


def _span_faults(
    spans: Sequence[Span], overlap: bool, classes: Collection[str], moments: bool
) -> Iterator[str]:
    """Describe what is wrong in the spans of a video: class, an end before the start, overlap."""
    for start, end, label, place in spans:
        if not label:
            yield f"{place}: label is empty"
        elif classes and label not in classes:
            yield unknown_class(label, classes, place)
        if len(label.splitlines()) > 1:
            yield f"{place}: label {label!r} has a line break"
        if moments and start == end:
            if start < 0:
                yield f"{place}: time must be at least 0, got {start:g}"
        elif not 0 <= start < end:
            yield f"{place}: start must be at least 0 and below end, got {start:g} to {end:g}"
    for span, following in pairwise(spans):
        if following.start < span.end and not overlap:
            times = f"{following.start:g} s, before {span.end:g} s"
            yield f"{following.where}: starts at {times}, the end of {span.where}"
