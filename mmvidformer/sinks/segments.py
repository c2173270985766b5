"""A csv file of segments of one class."""

import csv
from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import TextIO

from mmvidformer.sinks.base import Begun, Sink, SinkOptions
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
        self._open = [self._joined]  # those of all sources that have not ended

    def begin(self, begun: Begun) -> Sink:
        """Join the windows of the source."""
        rows = copy(self)
        rows._joined = JoinedWindows()
        self._open.append(rows._joined)
        return rows

    def append(self, prediction: Prediction) -> None:
        """Take the next prediction of a video, or the first of the next video."""
        self._write(self._joined.add(prediction))

    def end(self) -> None:
        """Write the last segments of the source."""
        self._open.remove(self._joined)
        self._write(self._joined.end())

    def fail(self, video: str, error: str) -> None:
        """Write what was found before."""
        if self._joined is not self._open[0]:
            self.end()

    def finish(self) -> None:
        """Write the last segments of all."""
        for joined in self._open:
            self._write(joined.end())
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
