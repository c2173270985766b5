"""MMAction2's annotation lists, with a video or a folder of frames in each line."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mmvidformer.datasets.csv_rows import read_text

# Columns before the labels.
VIDEOS = ("PATH",)
FRAMES = ("FOLDER", "FRAMES")


class Entry(NamedTuple):
    """A line of a list: its text, path, numbers before the labels (of frames), and labels."""

    text: str
    path: str
    numbers: tuple[int, ...]
    labels: tuple[int, ...]


def read_list(
    file: str | Path,
    delimiter: str | None = None,
    columns: tuple[str, ...] = VIDEOS,
    multi_class: bool = True,
) -> list[Entry]:
    """Read a list for MMAction2's ``VideoDataset`` or, with other columns, ``RawframeDataset``.

    Args:
        file: Text with a line per sample: the columns, and then any number of labels.
        delimiter: Delimiter of the columns. Default: for videos a tab if the file has one, else a
            blank; for frames any white space, as in MMAction2.
        columns: Columns before the labels: ``VIDEOS``, ``FRAMES``, or
            ``('FOLDER', 'OFFSET', 'FRAMES')``.
        multi_class: Whether a line may have several labels.

    Raises:
        ValueError: If a line has another form; names file, line and text.
    """
    content = read_text(file)
    if delimiter is None and columns == VIDEOS:
        delimiter = "\t" if "\t" in content else " "
    entries, split = [], len(columns) - 1
    for number, text in enumerate(io.StringIO(content), start=1):
        path, *values = text.strip().split(delimiter) or [""]
        most = len(values) if multi_class else split + 1
        numeric = all(re.fullmatch(r"[+-]?[0-9]{1,18}", value) for value in values)
        if not path or not numeric or not split <= len(values) <= most:
            form = " ".join([*columns, "LABEL", *["..."] * multi_class])
            raise ValueError(
                f"{file}, line {number}: expected '{form}' with the delimiter {delimiter!r}, got "
                f"{text.strip()[:100]!r}"
            )
        values = tuple(map(int, values))
        entries.append(Entry(text, path, values[:split], values[split:]))
    return entries


def write_report(
    file: str | Path,
    folder: str | Path,
    lines: Sequence[tuple[str, str]],
    faults: Mapping[str, str],
    ending: str = "_clean",
) -> tuple[Path, Path]:
    """Write ``<name>_bad.csv`` (line, path, reason) and ``<name><ending>.<extension>`` to a folder.

    ``lines`` are path and text of each line of the list ``file``, and ``faults`` are by path.
    Returns the two files.
    """
    name, folder = Path(file), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bad, clean = (folder / f"{name.stem}{end}" for end in ("_bad.csv", ending + name.suffix))
    rows = [(n, path, faults[path]) for n, (path, _) in enumerate(lines, 1) if path in faults]
    with bad.open("w", newline="", encoding="utf-8") as report:
        csv.writer(report).writerows([("line", "path", "reason"), *rows])
    clean.write_text("".join(text for path, text in lines if path not in faults), encoding="utf-8")
    return bad, clean
