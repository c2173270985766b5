"""Options of commands as fields of dataclasses: type, default and help stand once."""

from argparse import ArgumentParser, Namespace
from dataclasses import field, fields
from typing import Any, TypeVar

Options = TypeVar("Options")
METAVARS = {int: "N", float: "NUMBER"}


def option(text: str, default: Any = None, changes_rows: bool = True, **argument: Any) -> Any:
    """Return a field of a dataclass that is an option of a command.

    Args:
        text: Its help.
        default: Its default.
        changes_rows: Whether results depend on it, which are then not continued with another one.
        **argument: Further arguments of ``ArgumentParser.add_argument``.
    """
    argument |= dict(help=text, changes_rows=changes_rows)
    return field(default=default, metadata=argument)


def add_options(
    parser: ArgumentParser, options: type, title: str | None = None, without: type | None = None
) -> None:
    """Add an option for each field of a dataclass that has ``help``, in a group with a title.

    An option that is not given is None, so that ``read_options`` takes the default of the field.
    Those of a class ``without`` are left out.
    """
    group = parser.add_argument_group(title) if title else parser
    left_out = {setting.name for setting in fields(without)} if without else set()
    for setting in fields(options):
        if "help" not in setting.metadata or setting.name in left_out:
            continue
        argument = dict(setting.metadata, default=None)
        argument.pop("changes_rows", None)
        if argument.get("type") in METAVARS:
            argument.setdefault("metavar", METAVARS[argument["type"]])
        if type(setting.default) in (int, float, str) and "default" not in argument["help"]:
            argument["help"] += f" (default: {setting.default})"
        flag = f"--{setting.name.replace('_', '-')}"
        group.add_argument(flag, **argument)


def read_options(options: type[Options], args: Namespace) -> Options:
    """Make a dataclass of arguments; one that is None, or none, gets the default of its field."""
    values = {setting.name: getattr(args, setting.name, None) for setting in fields(options)}
    return options(**{name: value for name, value in values.items() if value is not None})
