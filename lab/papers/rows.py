"""All rows of the papers' tables, and how many of them can be run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mmvidformer.config.rows import Row, list_papers, read_paper


def list_rows(names: Sequence[str] | None = None) -> list[Row]:
    """Rows of papers or of files of rows. Default: all papers."""
    names = list_papers() if names is None else names
    rows: list[Row] = []
    for name in names:
        for table in read_paper(name).tables.values():
            rows += table.rows.values()
    return rows


@dataclass(frozen=True)
class Counts:
    """Numbers of rows: all, those that can be trained and tested, and those with a miniature."""

    rows: int
    runnable: int
    miniatures: int


def count_rows(rows: Iterable[Row]) -> Counts:
    """Count rows."""
    rows = list(rows)
    miniatures = sum(row.has_miniature for row in rows)
    return Counts(len(rows), sum(row.runnable for row in rows), miniatures)
