"""What a client asks for: options in the query of an address."""

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from mmvidformer.engine.arguments import positive, positive_number
from mmvidformer.engine.options import option
from mmvidformer.engine.part_options import PartOptions
from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up

WORDS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Asked(PartOptions):
    """Options of a request: those of parts, without files of the server."""

    address: str | None = option("address of the video, which the server must allow; no body then")
    fps: float | None = option("of a stream: its frames a second", type=positive_number)
    top: int = option("number of classes of a row", 5, type=positive)


FILES = ("boxes",)  # of the server, which clients do not name
SETTINGS = {
    field.name: field.metadata
    for field in fields(Asked)
    if "help" in field.metadata and field.name not in FILES
}


def read_query(query: Mapping[str, str]) -> Asked:
    """Read options, which are text; raise a ``UserError`` if one is wrong."""
    values: dict[str, Any] = {}
    for name, text in query.items():
        setting = look_up(SETTINGS, name, "option")
        allowed = setting.get("choices") or (WORDS if "action" in setting else [text])
        if text not in allowed:
            raise UserError(f"{name} must be one of {', '.join(allowed)}, got {text!r}")
        try:
            values[name] = WORDS[text] if "action" in setting else setting.get("type", str)(text)
        except (ArgumentTypeError, ValueError) as error:
            raise UserError(f"{name}: {error}") from None
    return Asked(**values)


def describe_query(models: Sequence[str]) -> list[dict[str, Any]]:
    """Return the options as parameters of OpenAPI."""
    schema = {"type": "string", "enum": list(models), "default": models[0]}
    parameters: list[dict[str, Any]] = [dict(name="model", schema=schema, **{"in": "query"})]
    for name, setting in SETTINGS.items():
        type_name = "boolean" if "action" in setting else "string"
        schema = {"type": "number" if "type" in setting else type_name}
        if "choices" in setting:
            schema["enum"] = list(setting["choices"])
        text = setting["help"]
        parameters.append(dict(name=name, description=text, schema=schema, **{"in": "query"}))
    return parameters
