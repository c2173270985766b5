"""MMAction2's annotation lists, with a video or a folder of frames in each line."""

import csv
import io
import re
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.datasets.csv_rows import read_text

# Columns before the labels.
VIDEOS = ("PATH",)
FRAMES = ("FOLDER", "FRAMES")


@dataclass(frozen=True)
class Entry:
    """A line of a list.

    Attributes:
        text: The line, with its end.
        path: The video or folder, as it is written.
        numbers: Values of the columns between path and labels, such as the number of frames.
        labels: Classes of the sample; empty if it has none.
    """

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


def add_list_arguments(parser: ArgumentParser, time_limit: float) -> None:
    """Add the arguments that describe lists and how their files are read."""
    parser.add_argument("--root", default="", help="folder of the videos (the data_prefix)")
    parser.add_argument("--workers", type=int, default=4, help="number of processes (default: 4)")
    parser.add_argument(
        "--time-limit", type=float, default=time_limit, help="seconds for one file (%(default)g)"
    )
    parser.add_argument(
        "--delimiter",
        type=lambda text: text.replace(r"\t", "\t"),
        help=r"delimiter of the columns, such as '\t' (default: a tab if the list has one, else a "
        "blank)",
    )


def write_report(
    file: str | Path,
    folder: str | Path,
    lines: Sequence[tuple[str, str]],
    faults: Mapping[str, str],
    ending: str = "_clean",
) -> tuple[Path, Path]:
    """Write ``<name>_bad.csv`` (line, path, reason) and ``<name><ending>.<extension>``.

    Args:
        file: The list.
        folder: Folder to write to.
        lines: Path and text of each of its lines.
        faults: Faults by path.
        ending: What to add to the name of the list without the bad files.

    Returns:
        The two files.
    """
    name, folder = Path(file), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bad, clean = (folder / f"{name.stem}{end}" for end in ("_bad.csv", ending + name.suffix))
    rows = [(n, path, faults[path]) for n, (path, _) in enumerate(lines, 1) if path in faults]
    with bad.open("w", newline="", encoding="utf-8") as report:
        csv.writer(report).writerows([("line", "path", "reason"), *rows])
    clean.write_text("".join(text for path, text in lines if path not in faults), encoding="utf-8")
    return bad, clean
