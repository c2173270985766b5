"""Rows of the papers' tables: what was published, and how they are run and counted.

``configs/papers/NAME.yml`` holds the tables and figures of a paper::

    title: Title of the paper
    url: Its address
    shared: For YAML anchors; not read
    tables:
      table2:
        title: What it compares
        config: Shipped config of the rows
        options: {dotted.key: value}             # overrides, as for --cfg-options
        metrics: {top1: acc/top1}                # metric of each published column
        start: Weights from which the published figures started, if not from the config's
        note: Remark on the table
        miniature: {config: ..., options: ..., metrics: ..., data: folder --preset plain}
        rows:
          model_3:
            title: Title of the row
            config: Another shipped config
            options: {"{train,val}_dataloader.batch_size": 8}    # braces expand as in a shell
            miniature: {dotted.key: value}       # in place of options; or a text, why there is none
            published: {top1: 77.4, params: 117.3, macs: 372.3}  # percent, 10^6, 10^9 of a view
            start: Of this row
            note: Remark on the row
            missing: Why the row cannot be run
            needs_start: Why it cannot be run without --start

Further columns of ``published`` are printed as they are, such as ``tflops`` (10^12, of all views),
``ms`` (of an inference), ``vps`` (videos per second), ``hours`` (of training on one GPU) and
``clips`` (of a test).

Only ``title``, ``tables`` and ``rows`` are required. ``miniature`` is a small config for generated
videos, which ``data`` generates (arguments of ``python -m lab generate``). ``params_tolerance``
(in 10^6) and ``macs_tolerance`` (relative) of a row say how near its counts are to the published.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mmvidformer.config.rows import (
    Options,
    Row,
    expand,
    list_papers,
    paper_file,
    read_content,
    recipe_of,
)
from mmvidformer.errors import UserError

METRICS = {"top1": "acc/top1", "top5": "acc/top5"}


@dataclass(frozen=True)
class Miniature:
    """What the rows of a table are with generated videos; see the module."""

    config: str
    data: str
    options: Options = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=lambda: METRICS)


@dataclass(frozen=True)
class PublishedRow(Row):
    """A row and its figures; see the module."""

    title: str = ""
    published: Mapping[str, float] = field(default_factory=dict)
    start: str = ""
    note: str = ""
    miniature: Options | str = "the table has no miniature"
    params_tolerance: float = 0.06
    macs_tolerance: float = 0.01

    @property
    def runnable(self) -> bool:
        """Whether the row can be trained and tested as it is."""
        return self.config is not None and not (self.missing or self.needs_start)

    @property
    def has_miniature(self) -> bool:
        """Whether the row can be run with a small model and generated videos."""
        return self.runnable and not isinstance(self.miniature, str)


@dataclass(frozen=True)
class Table:
    """A table or figure; see the module. ``name`` is ``PAPER/TABLE``."""

    name: str
    title: str
    rows: Mapping[str, PublishedRow]
    metrics: Mapping[str, str] = field(default_factory=lambda: METRICS)
    note: str = ""
    miniature: Miniature | None = None

    def recipe(
        self, row: PublishedRow, miniature: bool, has_start: bool = False
    ) -> tuple[str, Options]:
        """Name of the config of a row or of its miniature, and its overrides.

        Raises:
            UserError: If the row cannot be run.
        """
        if not miniature:
            return row.recipe(has_start)
        if self.miniature is None or isinstance(row.miniature, str):
            raise UserError(f"{row.name} has no miniature: {row.miniature}")
        return self.miniature.config, {**self.miniature.options, **row.miniature}


@dataclass(frozen=True)
class Paper:
    """A paper and its tables."""

    title: str
    url: str
    tables: Mapping[str, Table]


@cache
def read_paper(name: str) -> Paper:
    """Read the rows of a paper.

    Args:
        name: Name of the paper, or a file of rows.

    Raises:
        KeyError: If there is no such paper.
        UserError: If the file is no file of rows.
    """
    path = Path(name) if Path(name).is_file() else paper_file(name)
    try:
        content = read_content(path)
        tables = {
            key: _read_table(f"{path.stem}/{key}", table)
            for key, table in content["tables"].items()
        }
        return Paper(content["title"], content.get("url", ""), tables)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is no file of rows: {type(error).__name__}: {reason}") from error


def find_published(name: str) -> PublishedRow:
    """Look up the row ``PAPER/TABLE/ROW`` and its figures."""
    paper, table, row = name.split("/")
    return read_paper(paper).tables[table].rows[row]


def _read_table(name: str, content: Mapping[str, Any]) -> Table:
    table = dict(content)
    rows, start = table.pop("rows"), table.pop("start", "")
    for key in ("config", "options"):
        table.pop(key, None)
    miniature = table.pop("miniature", None)
    read_rows = {
        key: _read_row(f"{name}/{key}", content, entry or {}) for key, entry in rows.items()
    }
    if miniature is not None:
        small_options = expand(miniature.get("options", {}))
        miniature = Miniature(**{**miniature, "options": small_options})
    table["note"] = _add_start(table.get("note", ""), start)
    return Table(name, rows=read_rows, miniature=miniature, **table)


def _read_row(name: str, table: Mapping[str, Any], entry: Mapping[str, Any]) -> PublishedRow:
    """Make a row of its entry in a table."""
    title = name.rpartition("/")[2].replace("_", " ")
    row: dict[str, Any] = {"title": title, "start": table.get("start", ""), **entry}
    row |= recipe_of(table, entry)
    row["note"] = _add_start(entry.get("note", ""), entry.get("start", ""))
    if "miniature" in table:
        small = entry.get("miniature", entry.get("missing") or entry.get("options") or {})
        row["miniature"] = small if isinstance(small, str) else expand(small)
    return PublishedRow(name, **row)


def _add_start(note: str, start: str) -> str:
    """Add the weights from which published figures started, if any, to a remark."""
    return f"{note} Published figures started from {start}.".lstrip() if start else note


def list_rows(names: Sequence[str] | None = None) -> list[PublishedRow]:
    """Rows of papers or of files of rows. Default: all papers."""
    names = list_papers() if names is None else names
    rows: list[PublishedRow] = []
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


def count_rows(rows: Iterable[PublishedRow]) -> Counts:
    """Count rows."""
    rows = list(rows)
    miniatures = sum(row.has_miniature for row in rows)
    return Counts(len(rows), sum(row.runnable for row in rows), miniatures)
