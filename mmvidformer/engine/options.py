"""Arguments of commands as fields of dataclasses: type, default and help stand once.

Modules of options import nothing that takes long: a command reads its arguments, and then imports
what runs.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from mmvidformer.engine.arguments import not_negative, positive
from mmvidformer.errors import UserError

METAVARS: dict[Any, str] = {int: "N", positive: "N", not_negative: "N", float: "NUMBER"}


@dataclass(frozen=True)
class Options:
    """Arguments of a command, or some that several commands have.

    Attributes:
        title: That of their group in the help.
        usage: How the command is typed; default: argparse's words.
    """

    title: ClassVar[str | None] = None
    usage: ClassVar[str | None] = None

    def _check(self) -> None:
        """Raise a ``UserError`` if values do not go together."""


Chosen = TypeVar("Chosen", bound=Options)


def option(text: str, default: Any = None, changes_rows: bool = True, **settings: Any) -> Any:
    """Return a field of a dataclass that is an option of a command.

    Args:
        text: Its help.
        default: Its default.
        changes_rows: Whether results depend on it, which are then not continued with another one.
        **settings: Further arguments of ``ArgumentParser.add_argument``.
    """
    return field(default=default, metadata=dict(settings, help=text, changes_rows=changes_rows))


def flag(text: str, changes_rows: bool = True) -> Any:
    """Return a field that is an option without a value: False, or True if it is given."""
    return option(text, False, changes_rows, action="store_true")


def argument(text: str, **settings: Any) -> Any:
    """Return a field that is an argument without a name, as ``option``."""
    return option(text, None, False, positional=True, **settings)


def part(options: type[Options]) -> Any:
    """Return a field of further options, which have a dataclass of their own."""
    return field(default=options(), metadata=dict(options=options))


def parse_options(options: type[Chosen], argv: Sequence[str] | None, text: str | None) -> Chosen:
    """Read a command line; ends with a line about what is wrong, and the status 2.

    Args:
        options: Dataclass of all arguments.
        argv: The arguments; default: those of the process.
        text: What the command does.
    """
    parser = make_parser(options, text)
    values = read_options(options, parser.parse_intermixed_args(argv))
    try:
        values._check()
    except UserError as error:
        parser.error(str(error))
    return values


def make_parser(options: type[Options], text: str | None) -> ArgumentParser:
    """Make the parser of a command."""
    form = RawDescriptionHelpFormatter
    parser = ArgumentParser(usage=options.usage, description=text, formatter_class=form)
    add_options(parser, options)
    return parser


def add_options(parser: ArgumentParser, options: type[Options]) -> None:
    """Add an argument for each field of a dataclass that has ``help``, in the group of its class.

    An option that is not given is None, so that ``read_options`` takes the default of the field.
    """
    groups: dict[str | None, Any] = {None: parser}
    for setting in fields(options):
        if "options" in setting.metadata:
            add_options(parser, setting.metadata["options"])
        if "help" not in setting.metadata:
            continue
        owner = next(owner for owner in options.__mro__ if setting.name in vars(owner))
        title = vars(owner).get("title")
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        flag, settings = _describe(setting)
        groups[title].add_argument(flag, **settings)


def _describe(setting: Field) -> tuple[str, dict[str, Any]]:
    """Return what ``ArgumentParser.add_argument`` takes for a field."""
    settings = dict(setting.metadata, default=None)
    settings.pop("changes_rows")
    if settings.pop("positional", False):
        return setting.name, settings
    if settings.get("type") in METAVARS:
        settings.setdefault("metavar", METAVARS[settings["type"]])
    is_said = "default" in settings["help"] or setting.default == ""
    if type(setting.default) in (int, float, str) and not is_said:
        settings["help"] += f" (default: {setting.default})"
    return f"--{setting.name.replace('_', '-')}", settings


def read_options(options: type[Chosen], args: object) -> Chosen:
    """Make a dataclass of arguments; one that is None, or none, gets the default of its field."""
    values = {}
    for setting in fields(options):
        value = getattr(args, setting.name, None)
        if "options" in setting.metadata:
            value = read_options(setting.metadata["options"], args)
        if value is not None:
            values[setting.name] = value
    return options(**values)
