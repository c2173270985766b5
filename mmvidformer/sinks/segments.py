"""A csv file of segments of one class."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from mmvidformer.sinks.base import Sink, SinkOptions
from mmvidformer.tasks.joined_windows import JoinedWindows
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.rows import WHERE

COLUMNS = (*WHERE, "label", "score")  # of a file without any segment


class SegmentsCsv(Sink):
    """A row for each segment of one class, or for each window of values.

    A row is written when its segment has ended, the last one at the end, also of an interrupted
    run. Errors are those of ``open_rows``.
    """

    needs_parts = True

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._rows = CsvRows(self.open_rows(target, options))
        self._joined = JoinedWindows()

    def append(self, prediction: Prediction) -> None:
        """Take the next prediction of a video, or the first of the next video."""
        self._write(self._joined.add(prediction))

    def finish(self) -> None:
        """Write the last segments."""
        self._write(self._joined.end())
        if not self._rows.has_header:  # nothing was found
            self._rows.write_header(COLUMNS)

    def _write(self, segments: Sequence[Prediction]) -> None:
        for segment in segments:
            self._rows.write(segment)


class CsvRows:
    """Writes rows of predictions to an open csv file, the names of the columns first.

    Args:
        file: The file.
        has_header: Whether the names of the columns are in it.
    """

    def __init__(self, file: TextIO, has_header: bool = False) -> None:
        self.has_header = has_header
        self._writer = csv.writer(file, lineterminator="\n")

    def write(self, prediction: Prediction) -> None:
        """Write a row."""
        row = prediction.row()
        if not self.has_header:
            self.write_header(row)
        self._writer.writerow(row.values())

    def write_header(self, columns: Iterable[str]) -> None:
        """Write the names of the columns."""
        self._writer.writerow(columns)
        self.has_header = True
