"""Look-ups by name, with suggestions for unknown names, and registries."""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any, Generic, TypeVar

from mmvidformer.errors import UnknownName, UserError

Entry = TypeVar("Entry")
Built = TypeVar("Built")


def look_up(table: Collection[str], name: str, what: str) -> Any:
    """Look up a name in a mapping, or a collection of names, from which it is returned itself.

    Raises:
        KeyError: If the name is unknown. The message says what the names stand for (``what``, such
            as ``'pattern'``), and which are similar; it lists all if they are few.
    """
    if name in table:
        return table[name] if isinstance(table, Mapping) else name
    has_many = len(table) > 20
    near = get_close_matches(str(name), table, n=3, cutoff=0.5 if has_many else 0.7)
    hints = [f"did you mean {' or '.join(near)}?"] if near and len(table) > 1 else []
    if not has_many:
        hints.append(f"choose from {', '.join(sorted(table))}")
    elif not near:
        hints.append(f"{len(table)} names are known")
    raise UnknownName(f"no {what} named {name!r}; {' '.join(hints)}")


def check_options(
    function: object, options: Collection[str], what: str, arguments: Collection[str] = ()
) -> None:
    """Raise a UserError if a function does not take some options, or needs one that is lacking.

    Args:
        function: The function; what cannot be called has no options.
        options: Names of the options.
        what: What has the options, for the message, such as ``'stem'``.
        arguments: Names of arguments that are not options.
    """
    known = dict(signature(function).parameters) if callable(function) else {}
    names = ", ".join(name for name in known if name not in arguments) or "none"
    unknown = ", ".join(sorted(name for name in options if name not in known or name in arguments))
    if unknown and all(parameter.kind is not Parameter.VAR_KEYWORD for parameter in known.values()):
        raise UserError(f"{what} has no option {unknown}; its options are: {names}")
    variadic = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    needed = (
        name
        for name, parameter in known.items()
        if parameter.default is Parameter.empty and parameter.kind not in variadic
    )
    if missing := ", ".join(name for name in needed if name not in (*options, *arguments)):
        raise UserError(f"{what} needs the option {missing}; its options are: {names}")


class Registry(dict[str, Any], Generic[Built]):
    """A table of what configs can name, to which anyone can add.

    Args:
        what: What the names stand for, for the messages; such as ``'pattern'``.
        entries: Entries by name. Those that can be called are functions of their options.
        base: Class of all that is built, which says what others read of it.
    """

    def __init__(self, what: str, entries: Mapping[str, Any], base: type[Any]) -> None:
        super().__init__(entries)
        self.what, self.base = what, base

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Return a decorator that adds a class or function by name.

        Raises:
            KeyError: If the name is taken by something else; running a definition again is fine.
        """

        def add(entry: Entry) -> Entry:
            if name in self and _source(self[name]) != _source(entry):
                raise UnknownName(
                    f"there is another {self.what} named {name!r}; choose another name"
                )
            self[name] = entry
            return entry

        return add

    def complete(self, choice: str | Mapping) -> dict[str, Any]:
        """Return a choice with its ``type`` and all options, defaults included."""
        options = {"type": choice} if isinstance(choice, str) else dict(choice)
        known = signature(look_up(self, str(options.get("type")), self.what)).parameters.values()
        defaults = {p.name: p.default for p in known if p.default is not p.empty}
        return defaults | options

    def build(self, choice: str | Mapping, **arguments: Any) -> Built:
        """Call an entry with its options; an entry that cannot be called is returned as it is.

        Args:
            choice: A name, or a dictionary of the name as ``type`` and options.
            **arguments: Arguments that are not options.

        Raises:
            KeyError: If the name is unknown; the message lists the names.
            UserError: If an option is unknown or lacks; the message lists the options. If what is
                built is not of the class ``base``.
        """
        options = {"type": choice} if isinstance(choice, str) else dict(choice)
        name = options.pop("type", None)
        entry = look_up(self, name, self.what)
        check_options(entry, options, f"{self.what} {name}", arguments)
        built = entry(**arguments, **options) if callable(entry) else entry
        if not isinstance(built, self.base):
            wanted = f"{self.base.__module__}.{self.base.__qualname__}"
            raise UserError(f"{self.what} {name} must be a {wanted}, got {type(built).__name__}")
        return built


def _source(entry: object) -> tuple:
    return getattr(entry, "__module__", None), getattr(entry, "__qualname__", entry)
