"""Look-ups by name, with suggestions for unknown names."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any


def look_up(table: Collection[str], name: str, what: str) -> Any:
    """Look up a name in a table.

    Args:
        table: A mapping, or a collection of names.
        name: The name.
        what: What the names stand for, for the message; such as ``'pattern'``.

    Returns:
        The value of ``name`` in a mapping, or else ``name`` itself.

    Raises:
        KeyError: If the name is unknown. The message lists the names, or similar ones if there are
            many.
    """
    if name in table:
        return table[name] if isinstance(table, Mapping) else name
    hint = f"choose from {', '.join(sorted(table))}"
    if len(table) > 20:
        near = get_close_matches(str(name), table, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"{len(table)} names are known"
    raise KeyError(f"no {what} named {name!r}; {hint}")
