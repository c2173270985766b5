"""Look-ups by name, with suggestions for unknown names, and what is built from them."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
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


def build(table: Mapping[str, Any], choice: str | Mapping, what: str, **given: Any) -> Any:
    """Build an entry of a table from its name and options.

    Args:
        table: Entries by name. Those that can be called are functions of their options.
        choice: A name, or a dictionary of the name as ``type`` and options.
        what: What the names stand for, for the messages.
        **given: Arguments that are not options.

    Returns:
        The result of the function, or the entry itself if it cannot be called.

    Raises:
        KeyError: If the name is unknown; the message lists the names.
        ValueError: If an option is unknown; the message lists the options.
    """
    options = {"type": choice} if isinstance(choice, str) else dict(choice)
    name = options.pop("type", None)
    entry = look_up(table, name, what)
    known = dict(signature(entry).parameters) if callable(entry) else {}
    unknown = ", ".join(sorted(one for one in options if one not in known or one in given))
    if unknown and all(one.kind is not Parameter.VAR_KEYWORD for one in known.values()):
        names = ", ".join(one for one in known if one not in given) or "none"
        raise ValueError(f"{what} {name} has no option {unknown}; its options are: {names}")
    return entry(**given, **options) if callable(entry) else entry
