import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmvidformer.datasets.csv_rows import read_text


def read_list(
    file: str | Path, delimiter: str | None = None, multi_class: bool = True
) -> list[tuple[str, str]]:
    """Read text and path of each line of a list for MMAction2's ``VideoDataset``.

    Args:
        file: Text with a line per sample: the path, and then any number of labels.
        delimiter: Delimiter of the columns. Default: a tab if the file has one, else a space.
        multi_class: Whether a line may have several labels.

    Raises:
        ValueError: If a line has another form; names file, line and text.
    """
    content = read_text(file)
    delimiter = delimiter or ("\t" if "\t" in content else " ")
    entries = []
    for number, text in enumerate(io.StringIO(content), start=1):
        path, *labels = text.strip().split(delimiter)
        numeric = all(re.fullmatch(r"[+-]?[0-9]{1,18}", label) for label in labels)
        if not path or not numeric or (len(labels) > 1 and not multi_class):
            form = "PATH LABEL" + " ..." * multi_class
            got = f"with the delimiter {delimiter!r}, got {text.strip()[:100]!r}"
            raise ValueError(f"{file}, line {number}: expected '{form}' {got}")
        entries.append((text, path))
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


def say_count(count: int, noun: str) -> str:
    """Return a number and a noun, such as ``'1 fault'`` and ``'2 faults'``."""
    return f"{count} {noun}{'s' * (count != 1)}"
