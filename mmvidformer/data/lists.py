import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mmvidformer.data.tables import read_table
from mmvidformer.data.text import read_text
from mmvidformer.errors import FileThere, UserError
from mmvidformer.storage.atomic import write_together

LABEL = r"[+-]?[0-9]{1,18}"
DEFAULT_DELIMITER = " "  # of MMAction2's datasets
MOST_FAULTS = 20  # that an error names
REPORT = ("line", "path", "reason")  # columns of a table of bad videos


class ListLine(NamedTuple):
    """A line of a list: its text, and what it says."""

    text: str
    path: str
    labels: tuple[int, ...]


def read_list(
    file: str | Path, delimiter: str | None = None, multi_class: bool = True
) -> list[ListLine]:
    """Read the lines of a list for MMAction2's ``VideoDataset``, but empty ones at its end.

    Args:
        file: Text with a line per sample: the path, and then any number of labels.
        delimiter: Delimiter of the columns. Default: that of the file (``find_delimiter``).
        multi_class: Whether a line may have several labels.

    Raises:
        UserError: If a line has another form; names file, line and text.
    """
    content = read_text(file)
    delimiter = delimiter or find_delimiter(content)
    lines = []
    texts = list(io.StringIO(content))
    while texts and not texts[-1].strip():
        del texts[-1]
    for number, text in enumerate(texts, start=1):
        path, *labels = text.strip().split(delimiter)
        numeric = all(re.fullmatch(LABEL, label.strip()) for label in labels)
        if not path or not numeric or (len(labels) > 1 and not multi_class):
            form = "PATH LABEL" + " ..." * multi_class
            hint = " (tabs, if paths have spaces)" * (delimiter == DEFAULT_DELIMITER)
            got = f"with the delimiter {delimiter!r}{hint}, got {text.strip()[:100]!r}"
            raise UserError(f"{file}, line {number}: expected '{form}' {got}")
        lines.append(ListLine(text, path, tuple(map(int, labels))))
    return lines


class VideoList(NamedTuple):
    """A list of any task: MMAction2's text, or a csv file with a column ``video``.

    Attributes:
        header: The line of the names of columns, of a csv file.
        lines: Its other lines.
        column: Number of the column of the videos; None of a text.
        separator: What separates the columns of a csv file; decimal commas depend on it.
    """

    header: str
    lines: list[ListLine]
    column: int | None = None
    separator: str = ","

    def rename(self, line: ListLine, path: str) -> str:
        """Return a line with another path of the video."""
        if self.column is None:
            return line.text.replace(line.path, path, 1)
        (values,) = csv.reader([line.text], delimiter=self.separator)
        values[self.column] = path
        return _join_values(values, self.separator)


def read_video_list(file: str | Path) -> VideoList:
    """Read a list of any task, for its videos.

    Raises:
        UserError: If a line has another form, or names no video.
    """
    if not str(file).lower().endswith(".csv"):
        return VideoList("", read_list(file))
    table = read_table(file)
    lines = []
    for (row, place), (values, _) in zip(table.read("video"), table.rows, strict=True):
        if not row["video"]:
            raise UserError(f"{place}: there is no video")
        lines.append(ListLine(_join_values(values, table.separator), row["video"], ()))
    header = _join_values(table.names, table.separator)
    return VideoList(header, lines, table.names.index("video"), table.separator)


def _join_values(values: Sequence[str], separator: str) -> str:
    """Return a line of a csv file."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator="\n").writerow(values)
    return text.getvalue()


def find_delimiter(content: str) -> str:
    """Return the delimiter of a list: a tab if it has one, a comma before a number, or a space."""
    if "\t" in content:
        return "\t"
    first = content.lstrip().partition("\n")[0]
    return "," if re.search(rf",\s*{LABEL}$", first.rstrip()) else DEFAULT_DELIMITER


def check_report(file: str | Path, folder: str | Path, ending: str = "_clean") -> tuple[Path, Path]:
    """Return the files that ``write_report`` writes, whose earlier ones it replaces.

    Raises:
        FileExistsError: If one of them was not written by it.
    """
    name, folder = Path(file), Path(folder)
    bad, clean = (folder / f"{name.stem}{end}" for end in ("_bad.csv", ending + name.suffix))
    start = f"{','.join(REPORT)}\n"
    is_own = bad.is_file() and bad.read_bytes().replace(b"\r", b"").startswith(start.encode())
    others = [path for path in (bad, clean) if path.exists() and not is_own]
    if others:
        raise FileThere(f"{others[0]} is no earlier result of {name}; name another folder")
    return bad, clean


def write_report(
    file: str | Path,
    folder: str | Path,
    lines: Sequence[tuple[str, str]],
    faults: Mapping[str, str],
    ending: str = "_clean",
    header: str = "",
) -> tuple[Path, Path]:
    """Write ``<name>_bad.csv`` (line, path, reason) and ``<name><ending>.<extension>`` to a folder.

    ``lines`` are path and text of each line of the list ``file`` after its ``header``, and
    ``faults`` are by path. Returns the two files.
    """
    bad, clean = check_report(file, folder, ending)
    numbered = enumerate(lines, start=2 if header else 1)
    rows = [(n, path, faults[path]) for n, (path, _) in numbered if path in faults]
    text = "".join(text for path, text in lines if path not in faults)
    with write_together(folder) as parts:
        with (parts / bad.name).open("w", newline="", encoding="utf-8") as report:
            csv.writer(report).writerows([REPORT, *rows])
        (parts / clean.name).write_text(header + text, encoding="utf-8")
    return bad, clean


def say_count(count: int, noun: str) -> str:
    """Return a number and a noun: ``'1 fault'``, ``'2 boxes'``, ``'2 states without an end'``."""
    noun, preposition, more = re.split(r"( (?:of|in|without|outside) |$)", noun, maxsplit=1)
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x")) else "s"
    return f"{count} {noun}{ending}{preposition}{more}"
