import math
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mmvidformer.engine.model_options import OverrideOptions
from mmvidformer.engine.options import add_options
from mmvidformer.storage.targets import Target, check_targets


def add_model_arguments(
    parser: ArgumentParser, checkpoint: bool | None = True, device: bool = True
) -> None:
    """Add config, ``--cfg-options``, and checkpoint (None: optional) and ``--device`` if wanted."""
    parser.add_argument("config", help="config file, or name of a shipped config")
    if checkpoint is not False:
        text = "file, published://NAME, hf://ORG/NAME or URL"
        text += "" if checkpoint else " (default: the published one of the config)"
        parser.add_argument("checkpoint", nargs=None if checkpoint else "?", help=text)
    if device:
        parser.add_argument("--device", help="such as cuda:1 (default: a GPU if there is one)")
    add_options(parser, OverrideOptions)


def add_force_argument(parser: ArgumentParser) -> None:
    """Add ``--force``, which ``storage.targets.check_targets`` takes."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace results that are there already, when the new ones are whole; without it that "
        "is an error before the work begins",
    )


def check_outputs(options: Mapping[str, Any], targets: Iterable[Target], *outputs: str) -> None:
    """Check the files that a command will write (``check_targets``), against all that it reads.

    Args:
        options: Its options by name, with ``force``.
        targets: The files.
        *outputs: Names of the options that say where to write. All others may name inputs.
    """
    inputs = _texts_of([value for name, value in options.items() if name not in outputs])
    files = [text.rpartition("=")[2] for text in inputs if "=" in text]  # verb=FILE
    check_targets(targets, [*inputs, *files], options["force"])


def _texts_of(value: object) -> list[str]:
    if isinstance(value, str | Path):
        return [str(value)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts_of(item)]
    return []


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def not_negative(text: str) -> int:
    """Read a whole number of at least 0."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a whole number of at least 0, got {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return number
