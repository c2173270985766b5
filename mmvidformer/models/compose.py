"""Presets of a composed video transformer."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

# Arguments that tell why another one has no effect.
_REASONS = ("scheme", "reverse", "parallel", "shifts", "block", "encoders", "cls", "pool")


def fill(
    kind: Any, arch: str | Mapping[str, Any], given: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options that a preset sets, without those that the user gives instead.

    Args:
        kind: Class of the preset; ``kind.preset(given, **own)`` are the options that it sets.
        arch: Architecture, or an image model of timm (``image_options``).
        given: Other options of ``VideoTransformer`` that the user gives. They go to its constructor
            as ``**options``, by which editors complete their names.
        own: Arguments of the preset alone.

    Raises:
        ValueError: If one of the own arguments has another value than by default, but no effect.
    """

    def rest(**own: Any) -> dict[str, Any]:
        preset = kind.preset(given, **own)
        found = {**preset, **image_options(arch, preset)}
        return {name: value for name, value in found.items() if name not in given}

    found = rest(**own)
    for name, value in own.items():
        default = signature(kind).parameters[name].default
        if value != default and found == rest(**{**own, name: default}):
            others = {**own, **given}
            why = [f"{key}={others[key]!r}" for key in _REASONS if key in others and key != name]
            raise ValueError(
                f"{name}={value!r} of {kind.__name__} has no effect with {', '.join(why)}; "
                f"leave it out or set {name}={default!r}"
            )
    return found


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

    found = arguments_of(str(arch))
    if preset is not None:
        found = {key: x for key, x in found.items() if key not in ("cls", "pool", "fc_norm")}
        frames = preset.get("stem", found["stem"])["tubelet"][0]
        found["stem"] = {"tubelet": (frames, *found["stem"]["tubelet"][1:])}
        if isinstance(found["positions"], Mapping) and "positions" in preset:
            found["positions"] = {**found["positions"], "type": preset["positions"]}
        encoders = [{**preset, **one} for one in preset.get("encoders", ({},))]
        single = all(one.get("frames", "together") != "together" for one in encoders)
        if single and found["positions"] == "time":
            found["positions"] = "none"
    return found
