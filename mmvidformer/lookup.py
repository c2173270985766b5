"""Look-ups by name, with suggestions."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

# Names that are all listed in a message; of more, the similar ones.
MOST_LISTED = 20


def look_up(table: Collection[str], name: str, what: str) -> Any:
    """Look up a name in a table.

    Args:
        table: A mapping, or a collection of names.
        name: The name.
        what: What the names are, for the message, such as ``'pattern'``.

    Returns:
        The value of ``name`` in a mapping, or ``name`` itself.

    Raises:
        KeyError: If the name is unknown. The message lists the names, of many the similar ones.
    """
    if name in table:
        return table[name] if isinstance(table, Mapping) else name
    near = get_close_matches(str(name), table, n=3, cutoff=0.5)
    known = f"known are {', '.join(sorted(table))}"
    if len(table) > MOST_LISTED:
        known = f"did you mean {' or '.join(near)}?" if near else f"there are {len(table)} others"
    raise KeyError(f"no {what} named {name!r}; {known}")
