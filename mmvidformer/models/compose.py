"""Presets of a composed video transformer."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from mmvidformer.errors import UserError

Options = Mapping[str, Any]


def complete(
    model: Any, arch: str | Mapping[str, Any], options: Options, arguments: Options
) -> dict[str, Any]:
    """Return the options of a preset, with those of an image model and those that a user gives.

    Args:
        model: Class of the preset; its ``preset`` makes options of ``options`` and ``arguments``.
        arch: Architecture, or an image model of timm (``image_options``), which replaces the
            preset's.
        options: What the user gives; replaces both.
        arguments: Arguments of the preset alone.

    Raises:
        UserError: If one of ``arguments`` has another value than by default, but no effect.
    """

    def made(options: Options, arguments: Options) -> dict[str, Any]:
        return {**model.preset(options, **arguments), **options}

    def matters(options: Options, arguments: Options) -> bool:
        return made(options, arguments) != made(options, {**arguments, name: defaults[name]})

    parameters = signature(model).parameters
    defaults = {name: parameters[name].default for name in arguments}
    preset = model.preset(options, **arguments)
    for name, value in arguments.items():
        if value == defaults[name] or matters(options, arguments):
            continue
        why = [
            other
            for other in (*arguments, *options)
            if matters(
                {key: x for key, x in options.items() if key != other},
                {key: defaults[key] if key == other else x for key, x in arguments.items()},
            )
        ]
        given = ", ".join(f"{other}={({**arguments, **options})[other]!r}" for other in why)
        raise UserError(
            f"{name}={value!r} of {model.__name__} has no effect with {given or 'the others'}; "
            f"leave it out or set {name}={defaults[name]!r}"
        )
    return {**preset, **image_options(arch, preset), **options}


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
