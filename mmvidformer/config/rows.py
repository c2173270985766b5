"""Rows of the papers' tables: what was published, and the configs that train and test them.

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

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from mmvidformer.config.shipped import config_folder
from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up

METRICS = {"top1": "acc/top1", "top5": "acc/top5"}
Options = Mapping[str, object]


@dataclass(frozen=True)
class Miniature:
    """What the rows of a table are with generated videos; see the module."""

    config: str
    data: str
    options: Options = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=lambda: METRICS)


@dataclass(frozen=True)
class Row:
    """A row of a table; see the module. ``name`` is ``PAPER/TABLE/ROW``."""

    name: str
    title: str
    config: str | None = None
    options: Options = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    start: str = ""
    note: str = ""
    missing: str = ""
    needs_start: str = ""
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

    def recipe(self, has_start: bool = False) -> tuple[str, Options]:
        """Name of the row's config, and its overrides.

        Args:
            has_start: Whether the weights to start from are given (``--start``).

        Raises:
            UserError: If the row cannot be run.
        """
        if self.missing or self.config is None:
            raise UserError(f"{self.name} cannot be run: {self.missing or 'it has no config'}")
        if self.needs_start and not has_start:
            need = "needs weights to start from (python -m lab paper run ... --start WEIGHTS)"
            raise UserError(f"{self.name} {need}: {self.needs_start}")
        return self.config, self.options


@dataclass(frozen=True)
class Table:
    """A table or figure; see the module. ``name`` is ``PAPER/TABLE``."""

    name: str
    title: str
    rows: Mapping[str, Row]
    metrics: Mapping[str, str] = field(default_factory=lambda: METRICS)
    note: str = ""
    miniature: Miniature | None = None

    def recipe(self, row: Row, miniature: bool, has_start: bool = False) -> tuple[str, Options]:
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


def list_papers() -> list[str]:
    """Names of the papers with rows."""
    return sorted(path.stem for path in (config_folder() / "papers").glob("*.yml"))


@cache
def read_paper(name: str) -> Paper:
    """Read the rows of a paper.

    Args:
        name: Name of the paper, or a file of rows.

    Raises:
        KeyError: If there is no such paper.
        UserError: If the file is no file of rows.
    """
    if not Path(name).is_file():
        name = str(config_folder() / "papers" / f"{look_up(list_papers(), name, 'paper')}.yml")
    path = Path(name)
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
        tables = {
            key: _read_table(f"{path.stem}/{key}", dict(table))
            for key, table in content["tables"].items()
        }
        return Paper(content["title"], content.get("url", ""), tables)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{name} is no file of rows: {type(error).__name__}: {reason}") from error


def _read_table(name: str, table: dict) -> Table:
    options = table.pop("options", {})
    start = table.pop("start", "")
    defaults = dict(config=table.pop("config", None), start=start)
    miniature = table.pop("miniature", None)
    rows = {}
    for key, entry in table.pop("rows").items():
        rows[key] = _read_row(
            f"{name}/{key}", entry or {}, defaults, options, has_miniature=miniature is not None
        )
    if miniature is not None:
        small_options = expand(miniature.get("options", {}))
        miniature = Miniature(**{**miniature, "options": small_options})
    table["note"] = _add_start(table.get("note", ""), start)
    return Table(name, rows=rows, miniature=miniature, **table)


def _read_row(
    name: str, entry: dict[str, Any], defaults: dict, options: Options, has_miniature: bool
) -> Row:
    """Make a row of its entry; ``defaults`` and ``options`` are those of the table."""
    title = name.rpartition("/")[2].replace("_", " ")
    row: dict[str, Any] = {"title": title, **defaults, **entry}
    row["note"] = _add_start(entry.get("note", ""), entry.get("start", ""))
    overrides = entry.get("options") or {}
    row["options"] = expand({**options, **overrides})
    if has_miniature:
        small = entry.get("miniature", entry.get("missing") or overrides)
        row["miniature"] = small if isinstance(small, str) else expand(small)
    return Row(name, **row)


def _add_start(note: str, start: str) -> str:
    """Add the weights from which published figures started, if any, to a remark."""
    return f"{note} Published figures started from {start}.".lstrip() if start else note


def find_row(name: str) -> Row:
    """Look up the row ``PAPER/TABLE/ROW``.

    Raises:
        KeyError: If there is none. The message suggests similar names.
    """
    paper, table, row = name.split("/")
    tables = read_paper(paper).tables
    return look_up(look_up(tables, table, f"table of {paper}").rows, row, f"row of {table}")


def is_row(name: str) -> bool:
    """Whether a name has the form of a row's, ``PAPER/TABLE/ROW``."""
    return name.count("/") == 2 and name.partition("/")[0] in list_papers()


def expand(options: Options) -> dict[str, object]:
    """Expand the braces in keys, as ``{train,val}_dataloader.batch_size``.

    Lists of numbers become tuples, which transforms require.
    """
    expanded: dict[str, object] = {}
    for key, value in _with_tuples(options).items():
        parts = re.split(r"\{([^{}]*)\}", key)  # every second one was in braces
        choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
        for chosen in product(*choices):
            expanded["".join(chosen)] = value
    return expanded


def _with_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_tuples(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if all(type(item) in (int, float) for item in value):
        return tuple(value)
    return [_with_tuples(item) for item in value]
