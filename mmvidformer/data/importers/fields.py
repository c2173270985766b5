"""Fields of JSON of other tools: of the type that is needed, or a mistake that names them."""

import math
from collections.abc import Mapping
from typing import Any

from mmvidformer.errors import UserError

Part = Mapping[str, Any]
MOST_SHOWN = 60  # characters of a wrong value


def read_object(part: Part, name: str) -> Part:
    """Return a field that is an object; empty if there is none."""
    value = part.get(name)
    return {} if value is None else _check(value, isinstance(value, dict), name, "an object")


def read_objects(part: Part, name: str) -> list[Part]:
    """Return a field that is a list of objects; empty if there is none."""
    return _read_list(part, name, dict, "a list of objects")


def read_number(part: Part, name: str) -> float:
    """Return a field that is a finite number."""
    value = part.get(name)
    return _check(value, _is_number(value), name, "a number")


def read_numbers(part: Part, name: str) -> list[float]:
    """Return a field that is a list of finite numbers."""
    value = part.get(name)
    is_right = isinstance(value, list) and all(map(_is_number, value))
    return _check(value, is_right, name, "a list of numbers")


def read_texts(part: Part, name: str) -> list[str]:
    """Return a field that is a list of texts; empty if there is none."""
    return _read_list(part, name, str, "a list of texts")


def _read_list(part: Part, name: str, item_type: type, noun: str) -> list:
    value = part.get(name)
    values = [] if value is None else value
    is_right = isinstance(values, list) and all(isinstance(item, item_type) for item in values)
    return _check(values, is_right, name, noun)


def _is_number(value: Any) -> bool:
    is_right = isinstance(value, int | float) and not isinstance(value, bool)
    return is_right and math.isfinite(value)


def _check(value: Any, is_right: bool, name: str, noun: str) -> Any:
    if not is_right:
        raise UserError(f"{name} must be {noun}, got {str(value)[:MOST_SHOWN]}")
    return value
