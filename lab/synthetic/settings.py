"""Settings of generated datasets, each with a text that the command shows."""

from dataclasses import field
from typing import TypeVar

T = TypeVar("T")


def setting(default: T, text: str) -> T:
    """Return a dataclass field with a default and its description, for ``help_of``."""
    return field(default=default, metadata={"help": text})


def help_of(spec: object, name: str) -> str:
    """Return the description of a setting; a class that changes its default need not repeat it."""
    for cls in type(spec).__mro__:
        declared = vars(cls).get("__dataclass_fields__", {})
        if name in declared and "help" in declared[name].metadata:
            return declared[name].metadata["help"]
    raise KeyError(f"{type(spec).__name__} does not describe {name}")
