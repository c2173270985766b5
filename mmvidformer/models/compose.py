"""Presets of a composed video transformer."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from mmvidformer.errors import UserError


def complete(
    arch: str | Mapping[str, Any], options: Mapping[str, Any], preset: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a preset, with those of an image model and those that a user gives.

    Args:
        arch: Architecture, or an image model of timm (``image_options``), which replaces the
            preset's.
        options: What the user gives; replaces both.
        preset: Options that the preset sets.
    """
    return {**preset, **image_options(arch, preset), **options}


def refuse_unused(
    model: type, arguments: Mapping[str, Any], unused: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise a UserError if an argument has another value than by default, but no effect.

    Args:
        model: Class of the preset.
        arguments: Arguments of the preset alone.
        unused: For each of them that has no effect the arguments that are why.
    """
    for name, reasons in unused.items():
        value, default = arguments[name], signature(model).parameters[name].default
        if value != default:
            why = ", ".join(f"{reason}={x!r}" for reason, x in reasons.items())
            raise UserError(
                f"{name}={value!r} of {model.__name__} has no effect with {why}; "
                f"leave it out or set {name}={default!r}"
            )


def image_options(
    arch: str | Mapping[str, Any], preset: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return ``arch`` as an option; if it is ``'timm:NAME'``, all that make this image model.

    Class token, pooling, the kind of learned positions and the frames of a tubelet are those of the
    preset, if there is one. Where it encodes single frames only, there are no positions in time.
    """
    if not str(arch).startswith("timm:"):
        return {"arch": arch}
    from mmvidformer.checkpoints.timm_models import arguments_of  # timm is slow to import

    options = arguments_of(str(arch))
    if preset is None:
        return options
    options = {key: x for key, x in options.items() if key not in ("cls", "pool", "fc_norm")}
    frames = preset.get("stem", options["stem"])["tubelet"][0]
    options["stem"] = {"tubelet": (frames, *options["stem"]["tubelet"][1:])}
    if isinstance(options["positions"], Mapping) and "positions" in preset:
        options["positions"] = {**options["positions"], "type": preset["positions"]}
    encoders = [{**preset, **encoder} for encoder in preset.get("encoders", ({},))]
    single = all(encoder.get("frames") in ("pool", "average") for encoder in encoders)
    if single and options["positions"] == "time":
        options["positions"] = "none"
    return options
