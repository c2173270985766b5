"""Tables on the terminal and in csv files."""

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mmvidformer.storage.atomic import write_atomically


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    file: str | Path | None = None,
) -> None:
    """Print a table, and write it to a csv file (if any), whose folder is created."""
    rows, table = list(rows), Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 180).print(table)
    if file is not None:
        with write_atomically(file) as part, part.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([columns, *rows])
