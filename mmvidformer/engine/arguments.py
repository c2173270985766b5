import math
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mmvidformer.storage.targets import Target, check_targets


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


def parse_views(text: str) -> tuple[int, int]:
    """Read views written as clips x crops, such as ``4x3``, else raise an ``ArgumentTypeError``."""
    if not re.fullmatch(r"[1-9]\d*x(1|3|10)", text):
        raise ArgumentTypeError(f"must be CLIPSxCROPS with 1, 3 or 10 crops, got {text!r}")
    clips, crops = map(int, text.split("x"))
    return clips, crops
