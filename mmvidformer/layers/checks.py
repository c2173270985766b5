"""Which parts of an attention go together, and which of them run frame by frame."""

from collections.abc import Iterator, Mapping, Sequence

from mmvidformer.layers.config import Choice, ClsPolicy, EncoderConfig, SubLayer
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.masks import MASK_KINDS
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.shift import build_shift


def check(
    patterns: Sequence[Choice],
    kernel: Kernel,
    cls: ClsPolicy,
    shifts: Sequence[Choice],
    rope: Choice | None = None,
) -> None:
    """Raise a ValueError if the parts of an attention do not go together.

    That is, if the kernel does not support a pattern, the class token or rotary positions, or if
    class token or shifts would carry later frames to a causal pattern.
    """
    kind = type(kernel).__name__
    if rope is not None and not kernel.rotary:
        turned = ", ".join(name for name, other in KERNELS.items() if other.rotary)
        raise ValueError(
            f"{kind} cannot use rotary positions, since it maps queries and keys elementwise; use "
            f"kernel {turned}, or rope=False in its sub-layer"
        )
    reads_later = any(frames > 0 for frames in _read_frames(shifts))
    for given in patterns:
        pattern = PATTERNS.build(given)
        if missing := pattern.masks - kernel.masks:
            able = [name for name, other in KERNELS.items() if pattern.masks <= other.masks]
            raise ValueError(
                f"{kind} cannot {' or '.join(MASK_KINDS[m] for m in sorted(missing))}, as pattern "
                f"{given!r} needs; use kernel {', '.join(able)}"
            )
        if kernel.needs_own_keys and not (pattern.own_keys and cls != "global"):
            raise ValueError(
                f"{kind} needs queries that are the keys, unlike those of pattern {given!r} with "
                f"cls={cls!r}"
            )
        if "causal" in pattern.masks and (cls != "skip" or reads_later):
            wanted = "shifts that read no later frames" if cls == "skip" else "cls='skip'"
            raise ValueError(
                f"pattern {given!r} is causal and needs {wanted}, got cls={cls!r} and "
                f"shifts={list(shifts)}"
            )


def obstacles(sublayer: SubLayer) -> Iterator[str]:
    """Yield reasons why an attention cannot run frame by frame, with alternatives."""
    kernel = sublayer.kernel if isinstance(sublayer.kernel, str) else sublayer.kernel["type"]
    able = [name for name, other in KERNELS.items() if other.resumes]
    for given in sublayer.patterns:
        pattern = PATTERNS.build(given)
        if not pattern.causal:
            use = "use causal_time, causal_joint or a pattern within frames"
            yield f"pattern {given!r} sees later frames; {use}"
        if "causal" in pattern.masks and kernel not in able:
            yield f"kernel {kernel!r} depends on the clip's length; use {' or '.join(able)}"
    if any(_read_frames(sublayer.shifts)):
        yield f"shifts {list(sublayer.shifts)} read other frames; use spatial shifts"


def whole_grid(config: EncoderConfig) -> Iterator[str]:
    """Yield parts of an encoder that need the tokens of all places, so that none can be dropped."""
    for one in [one for block in config.blocks for one in block]:
        yield from (f"pattern {p!r}" for p in one.patterns if not PATTERNS.build(p).any_places)
        kernel = one.kernel if isinstance(one.kernel, str) else one.kernel["type"]
        if KERNELS[kernel].needs_length:
            yield f"kernel {kernel!r}"
        yield from (f"shift {shift!r}" for shift in one.shifts)
    if isinstance(config.mlp, Mapping) and config.mlp.get("depthwise"):
        yield "depthwise=True"


def _read_frames(shifts: Sequence[Choice]) -> list[int]:
    """Return from which frames tokens take channels, 0 for their own."""
    return [frames for shift in shifts for frames, _, _ in build_shift(shift).offsets]
