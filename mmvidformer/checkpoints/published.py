"""The table of published checkpoints, ``published.yml``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from mmvidformer.lookup import look_up

TABLE = Path(__file__).with_suffix(".yml")
PREFIX = "published://"


@dataclass(frozen=True)
class Published:
    """A published checkpoint; ``published.yml`` describes the columns. What is unknown is empty."""

    name: str
    address: str
    format: str
    config: str = ""
    classes: str = ""
    license: str = ""
    accuracy: str = ""
    pixels: tuple[float, ...] = ()
    check: Mapping = field(default_factory=dict)
    sha256: str = ""
    verified: str = ""


@cache
def rows() -> tuple[Published, ...]:
    """All rows of the table."""
    return tuple(Published(**row) for row in yaml.safe_load(TABLE.read_text(encoding="utf-8")))


def by_name() -> dict[str, Published]:
    """Rows by name. The name of a config stands for its first row too."""
    configs = {row.config: row for row in reversed(rows()) if row.config}
    return configs | {row.name: row for row in rows()}


def row_of(source: str | Path) -> Published | None:
    """Return the row of ``published://NAME`` or of an address; None for all other sources.

    Raises:
        KeyError: If there is no published checkpoint of that name. The message suggests others.
    """
    text = str(source)
    if text.startswith(PREFIX):
        return look_up(by_name(), text.removeprefix(PREFIX), "published checkpoint")
    return next((row for row in rows() if row.address == text), None)


def same_weights(row: Published) -> Published | None:
    """Return another row with the same weights, by the logits that check them, if there is one."""
    others = (other for other in rows() if other.check == row.check and other != row)
    return next(others, None) if row.check else None
