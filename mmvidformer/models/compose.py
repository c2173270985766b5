"""Parts of a composed video transformer: presets of it, and checks."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

from mmvidformer.layers import PATTERNS, EncoderConfig, TubeletEmbedding, checks
from mmvidformer.layers.patterns import Grid

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

    Class token, pooling and the frames of a tubelet are those of the preset, if there is one.
    """
    if not str(arch).startswith("timm:"):
        return {"arch": arch}
    from mmvidformer.convert.timm_models import arguments_of  # timm is slow to import

    found = arguments_of(str(arch))
    if preset is not None:
        found = {key: x for key, x in found.items() if key not in ("cls", "pool", "fc_norm")}
        frames = preset.get("stem", found["stem"])["tubelet"][0]
        found["stem"] = {"tubelet": (frames, *found["stem"]["tubelet"][1:])}
    return found


def check_patterns(config: EncoderConfig, grid: Grid) -> None:
    """Raise a ValueError if a pattern of an encoder joins no tokens.

    ``grid`` is the size (T, H, W) of its input, 1 for an axis with one token at most.
    """
    grid = grid if config.frames == "together" else (1, *grid[1:])
    sublayers = [one for block in config.blocks for one in block]
    for pattern in [pattern for one in sublayers for pattern in one.patterns]:
        if PATTERNS.build(pattern).num_keys(grid) == 1:
            seen = "".join(axis for axis, size in zip("thw", grid, strict=True) if size > 1)
            raise ValueError(
                f"with pattern {pattern!r} each token sees itself alone, because the encoder's "
                f"tokens differ in {', '.join(seen)} only"
            )


def check_cls(config: EncoderConfig, passes_grid: bool) -> None:
    """Raise a ValueError if a class token is not read, by tokens or as the output."""
    roles = [[one.cls for one in block] for block in config.blocks]
    if config.cls is None:
        return
    if all(role == "skip" for block in roles for role in block):
        raise ValueError("cls of one sub-layer at least must be 'mean' or 'global', got 'skip'")
    last = roles[(config.sizes["depth"] - 1) % len(roles)][0 if config.parallel else -1 :]
    if not passes_grid and "skip" in last:
        raise ValueError(
            "cls of the last sub-layer (of all, if they are parallel) must be 'mean' or 'global', "
            "or the output, which is the class token, would not depend on it; got 'skip'"
        )


def obstacles(encoders: Sequence[EncoderConfig], embed: TubeletEmbedding) -> Iterator[str]:
    """Yield reasons why encoders cannot run frame by frame, with alternatives."""
    if not embed.separate_frames:
        yield "tubelets overlap in time; use a stride of as many frames, without padding"
    for number, config in enumerate(encoders):
        if config.frames == "average":
            yield f"encoders.{number}: frames='average' is a mean over time; use frames='pool'"
        if config.frames != "together":  # no token sees another frame
            continue
        if config.cls is not None:
            yield f"encoders.{number}: the class token sees all frames; use cls=None"
        for one in [one for block in config.blocks for one in block]:
            for text in checks.obstacles(one):
                yield f"encoders.{number}, sub-layer {one.name}: {text}"
