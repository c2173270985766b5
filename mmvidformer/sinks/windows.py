"""A csv file of windows, to which the same command adds rows."""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Sink, SinkOptions
from mmvidformer.sinks.segments import CsvRows
from mmvidformer.storage.atomic import name_errors
from mmvidformer.storage.names import spell
from mmvidformer.storage.resuming import ResumingTable
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.rows import WHERE, round_number

START = ",".join(WHERE).encode()  # of each such file


class WindowsCsv(Sink, ResumingTable):
    """A csv file with a row for each window, to which the same command adds rows.

    A row that was not written completely is removed. A file beside it, with ``.settings.json`` at
    its end, has what the rows depend on.

    Raises:
        FileExistsError: If the rows depend on something else, or are of unknown origin.
        UserError: If another process writes the file.
        UserError: If it is another table.
    """

    needs_parts, parts = True, ("windows",)

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return none: an old file is continued."""
        return []

    def __init__(self, target: Path, options: SinkOptions) -> None:
        if target.exists() and not target.is_file():
            raise UserError(f"{target} is no file, to which rows could be added")
        self.target = target
        self._windows: dict[str, list[list[str]]] = defaultdict(list)  # start and end, by video
        record = target.with_name(f"{target.name}.settings.json")
        if not target.exists() or not target.stat().st_size:
            record.unlink(missing_ok=True)  # of a table that was deleted
        ResumingTable.__init__(self, target, options.settings, record)
        self._file = target.open("a", 1, encoding="utf-8", newline="")  # row by row
        self._file.truncate(self._size)
        self._rows = CsvRows(self._file, bool(self._size))

    def _read(self) -> bool:
        text = self.target.read_bytes()
        kept = text[: text.rfind(b"\n") + 1]
        rows = [row for row in csv.reader(io.StringIO(kept.decode(errors="replace"))) if row]
        is_begun = START.startswith(text) or text.startswith(START)  # also of a header alone
        if rows and tuple(rows[0][:3]) != WHERE or not is_begun and not rows:
            raise UserError(f"{self.target} is no table of windows; use another file")
        for row in rows[1:]:
            self._windows[row[0]].append(row[1:3])
        self._size = len(kept)
        return bool(text)

    def append(self, prediction: Prediction) -> None:
        """Write the row of a window."""
        with name_errors(self.target, self.target):
            self._rows.write(prediction)

    def count(self, video: str, spans: list[tuple[float, float]]) -> int:
        """Return how many of the windows of a video the file has.

        Raises:
            UserError: If it has others.
        """
        rows = self._windows[spell(video)]
        expected = [[str(round_number(x, 3)) for x in span] for span in spans[: len(rows)]]
        if rows != expected:
            raise UserError(f"{self.target} has other windows of {video}; use another file")
        return len(rows)

    def close(self, *error: Any) -> None:
        """Close the file."""
        try:
            with name_errors(self.target, self.target):
                self._file.close()
        finally:
            ResumingTable.__exit__(self, *error)
