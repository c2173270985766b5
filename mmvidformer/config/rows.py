"""Rows of the papers' tables as configs, such as ``vivit/table2/model_3``.

``configs/papers/NAME.yml`` holds the tables and figures of a paper. This makes a config of a row::

    tables:
      table2:
        config: Shipped config of the rows
        options: {dotted.key: value}             # overrides, as for --cfg-options
        rows:
          model_3:
            config: Another shipped config
            options: {"{train,val}_dataloader.batch_size": 8}    # braces expand as in a shell
            missing: Why the row cannot be run
            needs_start: Why it cannot be run without weights to start from

The rest, such as published figures, is for ``lab.papers``.
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

Options = Mapping[str, object]


@dataclass(frozen=True)
class Row:
    """A row of a table; see the module. ``name`` is ``PAPER/TABLE/ROW``."""

    name: str
    config: str | None = None
    options: Options = field(default_factory=dict)
    missing: str = ""
    needs_start: str = ""

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


def list_papers() -> list[str]:
    """Names of the papers with rows."""
    return sorted(path.stem for path in (config_folder() / "papers").glob("*.yml"))


def is_row(name: str) -> bool:
    """Whether a name has the form of a row's, ``PAPER/TABLE/ROW``."""
    return name.count("/") == 2 and name.partition("/")[0] in list_papers()


def find_row(name: str) -> Row:
    """Look up the row ``PAPER/TABLE/ROW``.

    Raises:
        KeyError: If there is none. The message suggests similar names.
    """
    paper, table_name, row_name = name.split("/")
    tables = read_content(paper_file(paper))["tables"]
    table = look_up(tables, table_name, f"table of {paper}")
    entry = look_up(table["rows"], row_name, f"row of {table_name}") or {}
    recipe = recipe_of(table, entry)
    reasons = {key: entry[key] for key in ("missing", "needs_start") if key in entry}
    return Row(name, **recipe, **reasons)


def paper_file(name: str) -> Path:
    """Return the file of a paper; a ``KeyError`` if there is none."""
    return config_folder() / "papers" / f"{look_up(list_papers(), name, 'paper')}.yml"


@cache
def read_content(file: Path) -> dict[str, Any]:
    """Read a file of rows."""
    return yaml.safe_load(file.read_text("utf-8"))


def recipe_of(table: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config`` and ``options`` of the entry of a row, of which a table has the rest."""
    options = {**table.get("options", {}), **(entry.get("options") or {})}
    return dict(config=entry.get("config", table.get("config")), options=expand(options))


def expand(options: Options) -> dict[str, object]:
    """Expand the braces in keys, as ``{train,val}_dataloader.batch_size``.

    Lists of numbers become tuples, which transforms require.
    """
    expanded: dict[str, object] = {}
    for key, value in with_tuples(options).items():
        parts = re.split(r"\{([^{}]*)\}", key)  # every second one was in braces
        choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
        for chosen in product(*choices):
            expanded["".join(chosen)] = value
    return expanded


def with_tuples(value: Any) -> Any:
    """Copy a part of a config, with tuples of numbers, which YAML and JSON do not have."""
    if isinstance(value, Mapping):
        return {key: with_tuples(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if all(type(item) in (int, float) for item in value):
        return tuple(value)
    return [with_tuples(item) for item in value]
