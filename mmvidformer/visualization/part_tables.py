"""Tables of answers, which are written one by one."""

import csv
import fcntl
import io
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from mmvidformer.apis import Prediction
from mmvidformer.apis.bulk.settings import check_settings
from mmvidformer.storage.atomic import open_rows
from mmvidformer.storage.names import spell
from mmvidformer.tasks.joined_windows import JoinedWindows
from mmvidformer.tasks.rows import WHERE, round_number

COLUMNS = (*WHERE, "label", "score")  # of segments
START = ",".join(WHERE).encode()  # of their files


class PartRows:
    """Writes ``Prediction.row`` of each window or segment to an open csv file, at once.

    Args:
        file: The file.
        has_header: Whether the names of the columns are in it.
    """

    def __init__(self, file: TextIO, has_header: bool = False) -> None:
        self.has_header = has_header
        self._writer = csv.writer(file, lineterminator="\n")

    def add(self, part: Prediction) -> None:
        """Write a row."""
        row = part.row()
        if not self.has_header:
            self.add_header([*row])
        self._writer.writerow(row.values())

    def add_header(self, columns: Sequence[str]) -> None:
        """Write the names of the columns."""
        self._writer.writerow(columns)
        self.has_header = True


class WindowTable(AbstractContextManager):
    """A csv file with a row for each window, to which the same command adds rows.

    A row that was not written completely is removed. A file beside it, with ``.settings.json`` at
    its end, has what the rows depend on.

    Args:
        path: The file.
        settings: What the rows depend on.

    Raises:
        FileExistsError: If the rows depend on something else, or are of unknown origin.
        OSError: If another process writes the file.
        ValueError: If it is another table.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._windows: dict[str, list[list[str]]] = defaultdict(list)  # start and end, by video
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is no file, to which rows could be added")
        text = path.read_bytes() if path.is_file() else b""
        kept = text[: text.rfind(b"\n") + 1]
        rows = [row for row in csv.reader(io.StringIO(kept.decode(errors="replace"))) if row]
        is_begun = START.startswith(text) or text.startswith(START)  # also of a header alone
        if rows and tuple(rows[0][:3]) != WHERE or not is_begun and not rows:
            raise ValueError(f"{path} is no table of windows; use another file")
        record = path.with_name(f"{path.name}.settings.json")
        if not text:
            record.unlink(missing_ok=True)  # of a table that was deleted
        elif not record.is_file():
            raise FileExistsError(f"{path} has rows of unknown settings, without {record}")
        check_settings(path, settings, record)
        for row in rows[1:]:
            self._windows[row[0]].append(row[1:3])
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", 1, encoding="utf-8", newline="")  # row by row
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(f"another process writes to {path}; use another file") from error
        self._file.truncate(len(kept))
        self._rows = PartRows(self._file, bool(kept))
        self.add = self._rows.add

    def count(self, video: str, seconds: list[tuple[float, float]]) -> int:
        """Return how many of the windows of a video the file has.

        Raises:
            ValueError: If it has others.
        """
        rows = self._windows[spell(video)]
        expected = [[str(round_number(x, 3)) for x in span] for span in seconds[: len(rows)]]
        if rows != expected:
            raise ValueError(f"{self.path} has other windows of {video}; use another file")
        return len(rows)

    def __exit__(self, *error: object) -> None:
        self._file.close()


class PartTable(AbstractContextManager):
    """A csv file of the segments of videos, or of the values of their windows; a context manager.

    Each row is written when its segment has ended, the last one at the end, also of an interrupted
    run. Arguments and errors are those of ``open_rows``.
    """

    def __init__(self, path: Path, force: bool = False) -> None:
        self._files = ExitStack()
        self._rows = PartRows(self._files.enter_context(open_rows(path, force)))
        self._joined = JoinedWindows()

    def add(self, prediction: Prediction) -> None:
        """Take the next prediction of a video, or the first of the next video."""
        self._write(self._joined.add(prediction))

    def __exit__(self, *error: object) -> None:
        try:
            self._write(self._joined.end())
            if not self._rows.has_header:  # nothing was found
                self._rows.add_header(COLUMNS)
        finally:
            self._files.__exit__(*error)

    def _write(self, row: Prediction | None) -> None:
        if row is not None:
            self._rows.add(row)


@contextmanager
def open_tables(
    json_lines: Path | None,
    parts: Path | None,
    windows: WindowTable | None,
    k: int = 5,
    force: bool = False,
) -> Iterator[Callable[..., None]]:
    """Open files of rows; yields a function that writes a prediction or a failure at once.

    Its argument ``in_tables`` says whether tables take the prediction, besides JSON lines.

    Args:
        json_lines: File of JSON lines; ``-``: the standard output.
        parts: File of a ``PartTable``.
        windows: Table of windows.
        k: Number of classes of a JSON line.
        force: Whether old files may be replaced, when the new ones are whole (``open_rows``).
    """
    with ExitStack() as stack:
        lines, tables = None, [stack.enter_context(windows)] if windows else []
        if str(json_lines) == "-":
            lines = sys.stdout
        elif json_lines:
            lines = stack.enter_context(open_rows(json_lines, force))
        if parts:
            tables.append(stack.enter_context(PartTable(parts, force)))

        def write(answer: Prediction | dict, in_tables: bool = True) -> None:
            is_failure = isinstance(answer, dict)
            if lines:
                record = answer if is_failure else answer.row(k)
                print(json.dumps(record, ensure_ascii=False), file=lines, flush=True)
            for table in tables if in_tables and not is_failure else ():
                table.add(answer)

        yield write
