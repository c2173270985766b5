"""Look-ups in the models' tables."""

from collections.abc import Collection, Mapping
from typing import Any


def look_up(table: Collection[str], name: str, what: str) -> Any:
    """Value of ``name`` in a mapping, or the name itself in a set.

    Args:
        table: The known names.
        name: The wanted one.
        what: What the names are, for the message.

    Raises:
        KeyError: If the name is not known; the message lists those that are.
    """
    if name not in table:
        raise KeyError(f"no {what} named {name!r}; known are {sorted(table)}")
    return table[name] if isinstance(table, Mapping) else name
