"""Parts of a composed video transformer: its signature, presets of it, and checks."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec

from mmvidformer.layers import PATTERNS, Attention, Encoder, EncoderConfig
from mmvidformer.layers.patterns import Grid

P = ParamSpec("P")
# Arguments that tell why another one has no effect.
_REASONS = ("scheme", "reverse", "parallel", "shifts", "block", "encoders", "cls", "pool")


def takes(config: Callable[P, Any]) -> Callable[[Callable], Callable[Concatenate[Any, P], None]]:
    """Give a constructor the signature of a dataclass, for editors, ``help`` and ``signature``."""

    def decorate(init: Any) -> Any:
        me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        init.__signature__ = signature(init).replace(
            parameters=[me, *signature(config).parameters.values()]
        )
        return init

    return decorate


def fill(kind: Any, given: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the options of a preset with those that it does not set itself.

    Args:
        kind: Class of the preset; ``kind.preset(given, **own)`` are the options that it sets.
        given: Options of ``VideoTransformer`` that the user gave; they replace the preset's.
        own: Arguments of the preset alone.

    Raises:
        ValueError: If one of the own arguments has no effect on the result.
    """
    found = {**kind.preset(given, **own), **given}
    for name, value in own.items():
        default = signature(kind).parameters[name].default
        if value != default and found == {**kind.preset(given, **{**own, name: default}), **given}:
            others = {**own, **given}
            rest = [f"{key}={others[key]!r}" for key in _REASONS if key in others and key != name]
            raise ValueError(
                f"{name}={value!r} of {kind.__name__} has no effect with {', '.join(rest)}; "
                f"leave it out or set {name}={default!r}"
            )
    return found


def check_patterns(config: EncoderConfig, grid: Grid) -> None:
    """Check that tokens see others.

    Args:
        config: Options of an encoder.
        grid: Grid (T, H, W) of its input; 1 for an axis along which there is one token at most.

    Raises:
        ValueError: If a pattern joins no tokens of the grid.
    """
    grid = grid if config.frames == "together" else (1, *grid[1:])
    for pattern in [one for block in config.blocks for row in block for one in row.patterns]:
        if PATTERNS.build(pattern).num_keys(grid) == 1:
            seen = "".join(axis for axis, size in zip("thw", grid, strict=True) if size > 1)
            raise ValueError(
                f"with pattern {pattern!r} each token sees itself alone, because the encoder's "
                f"tokens differ in {', '.join(seen)} only"
            )


def check_cls(encoder: Encoder) -> None:
    """Check that the class token is read, by later tokens or as the output.

    Raises:
        ValueError: If it is not.
    """
    roles = [
        [part.cls for part in block.modules() if isinstance(part, Attention)]
        for block in encoder.blocks
    ]
    if all(role == "skip" for block in roles for role in block):
        raise ValueError("cls of one sub-layer at least must be 'mean' or 'global', got 'skip'")
    last = roles[-1] if encoder.blocks[-1].parallel else roles[-1][-1:]
    if not encoder.passes_grid and "skip" in last:
        raise ValueError(
            "cls of the last sub-layer (of all, if they are parallel) must be 'mean' or 'global', "
            "or the output, which is the class token, would not depend on it; got 'skip'"
        )
