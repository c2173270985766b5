"""A table of windows that grows while a long video is read, and goes on where it stopped."""

import csv
import io
from collections import defaultdict
from pathlib import Path

from mmvidformer.apis import Prediction


class WindowTable:
    """A csv file with a row for each window, which is written at once.

    Columns are video, start and end in seconds, and the most likely class and its probability, by
    task if there are several; or the values. A row that was not written completely is removed.

    Args:
        path: The file. If it exists, rows are added to it.

    Raises:
        ValueError: If it is another table.

    Attributes:
        rows: Rows that the file had, by video.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, list[list[str]]] = defaultdict(list)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.is_file() else b""
        kept = text[: text.rfind(b"\n") + 1]
        self.is_new = not kept
        rows = [row for row in csv.reader(io.StringIO(kept.decode(errors="replace"))) if row]
        if rows and rows[0][:3] != ["video", "start", "end"]:
            raise ValueError(f"{path} is no table of windows; use another file")
        for row in rows[1:]:
            self.rows[row[0]].append(row)
        self._file = open(path, "r+b" if text else "wb")
        self._file.truncate(len(kept))
        self._file.seek(len(kept))

    def count(self, video: str, seconds: list[tuple[float, float]]) -> int:
        """Return how many of the windows of a video the file has.

        Raises:
            ValueError: If it has others.
        """
        found = [tuple(row[1:3]) for row in self.rows[video]]
        if found != [_times(one) for one in seconds[: len(found)]]:
            raise ValueError(f"{self.path} has other windows of {video}; use another file")
        return len(found)

    def add(self, one: Prediction) -> None:
        """Write a row."""
        cells = list(one.values.items())
        for task in one.scores if not cells else ():
            _, name, share = one.top(1, task)[0]
            name_of_share = "probability" if len(one.scores) == 1 else f"{task}_probability"
            cells += [(task if len(one.scores) > 1 else "label", name), (name_of_share, share)]
        if self.is_new:
            self._write(["video", "start", "end", *(column for column, _ in cells)])
            self.is_new = False
        values = (f"{x:.6g}" if isinstance(x, float) else x for _, x in cells)
        self._write([one.source, *_times(one.seconds or (0.0, 0.0)), *values])

    def _write(self, row: list) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerow(row)
        self._file.write(text.getvalue().encode())
        self._file.flush()


def _times(seconds: tuple[float, float]) -> tuple[str, str]:
    return f"{seconds[0]:.2f}", f"{seconds[1]:.2f}"
