"""Which parts of an encoder go together, and which of them run frame by frame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from mmvidformer.layers.config import Choice, ClsPolicy, EncoderConfig, SubLayer, name_of
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.lookup import look_up
from mmvidformer.layers.masks import MASK_KINDS
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.shift import build_shift
from mmvidformer.layers.tokens import Size


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
    name = type(kernel).__name__
    if rope is not None and not kernel.rotary:
        turned = ", ".join(key for key, other in KERNELS.items() if other.rotary)
        raise ValueError(
            f"{name} cannot use rotary positions, since it maps queries and keys elementwise; use "
            f"kernel {turned}, or rope=False in its sub-layer"
        )
    reads_later = any(frames > 0 for frames in _read_frames(shifts))
    for choice in patterns:
        pattern = PATTERNS.build(choice)
        if missing := pattern.masks - kernel.masks:
            able = [key for key, other in KERNELS.items() if pattern.masks <= other.masks]
            raise ValueError(
                f"{name} cannot {' or '.join(MASK_KINDS[m] for m in sorted(missing))}, as pattern "
                f"{choice!r} needs; use kernel {', '.join(able)}"
            )
        if kernel.needs_own_keys and not (pattern.own_keys and cls != "global"):
            raise ValueError(
                f"{name} needs queries that are the keys, unlike those of pattern {choice!r} "
                f"with cls={cls!r}"
            )
        if "causal" in pattern.masks and (cls != "skip" or reads_later):
            wanted = "shifts that read no later frames" if cls == "skip" else "cls='skip'"
            raise ValueError(
                f"pattern {choice!r} is causal and needs {wanted}, got cls={cls!r} and "
                f"shifts={list(shifts)}"
            )


def check_patterns(config: EncoderConfig, grid: Size) -> None:
    """Raise a ValueError if a pattern of an encoder joins no tokens.

    ``grid`` is the size (T, H, W) of its input, 1 for an axis with one token at most.
    """
    grid = grid if config.frames == "together" else (1, *grid[1:])
    for pattern in chain.from_iterable(sublayer.patterns for sublayer in config.sublayers):
        if PATTERNS.build(pattern).num_keys(grid) == 1:
            seen = "".join(axis for axis, size in zip("thw", grid, strict=True) if size > 1)
            raise ValueError(
                f"with pattern {pattern!r} each token sees itself alone, because the encoder's "
                f"tokens differ in {', '.join(seen)} only"
            )


def check_positions(encoders: Sequence[EncoderConfig]) -> None:
    """Raise a ValueError if encoders have positions in time, but all of these see single frames."""
    timed = [config for config in encoders if name_of(config.positions) == "time"]
    if timed and all(config.frames != "together" for config in timed):
        raise ValueError(
            f"positions='time' has no effect with frames={timed[0].frames!r}, which encodes frames "
            "one by one; use 'none' or 'space'"
        )


def check_cls(config: EncoderConfig, passes_grid: bool) -> None:
    """Raise a ValueError if a class token is not read, by tokens or as the output."""
    if config.cls is None:
        return
    if all(sublayer.cls == "skip" for sublayer in config.sublayers):
        raise ValueError("cls of one sub-layer at least must be 'mean' or 'global', got 'skip'")
    blocks = config.blocks
    last_block = blocks[(config.sizes["depth"] - 1) % len(blocks)]
    last = last_block if config.parallel else last_block[-1:]
    if not passes_grid and any(sublayer.cls == "skip" for sublayer in last):
        raise ValueError(
            "cls of the last sub-layer (of all, if they are parallel) must be 'mean' or 'global', "
            "or the output, which is the class token, would not depend on it; got 'skip'"
        )


def obstacles(encoders: Sequence[EncoderConfig], separate_frames: bool) -> Iterator[str]:
    """Yield reasons why encoders cannot run frame by frame, with alternatives.

    ``separate_frames`` is that of their ``TubeletEmbedding``.
    """
    if not separate_frames:
        yield "tubelets overlap in time; use a stride of as many frames, without padding"
    able = [name for name, other in KERNELS.items() if other.resumes]
    for number, config in enumerate(encoders):
        if config.frames == "average":
            yield f"encoders.{number}: frames='average' is a mean over time; use frames='pool'"
        if config.frames != "together":  # no token sees another frame
            continue
        if config.cls is not None:
            yield f"encoders.{number}: the class token sees all frames; use cls=None"
        for sublayer in config.sublayers:
            where = f"encoders.{number}, sub-layer {sublayer.name}"
            kernel = name_of(sublayer.kernel)
            for choice in sublayer.patterns:
                pattern = PATTERNS.build(choice)
                if not pattern.causal:
                    use = "use causal_time, causal_joint or a pattern within frames"
                    yield f"{where}: pattern {choice!r} sees later frames; {use}"
                if "causal" in pattern.masks and kernel not in able:
                    use = f"use {' or '.join(able)}"
                    yield f"{where}: kernel {kernel!r} depends on the clip's length; {use}"
            shifts = list(sublayer.shifts)
            if any(_read_frames(shifts)):
                yield f"{where}: shifts {shifts} read other frames; use spatial shifts"


def check_encoder(config: EncoderConfig) -> None:
    """Raise a ValueError if options of an encoder are unknown or do not go together."""
    if config.registers and config.cls is None:
        raise ValueError(
            f"registers={config.registers} join as the class token does: cls must be 'mean' or "
            "'global', got None"
        )
    if config.with_cp not in (False, "activations", True):
        raise ValueError(f"with_cp must be False, 'activations' or True, got {config.with_cp!r}")


def with_length(sublayer: SubLayer, size: Size, prefix: int) -> SubLayer:
    """Tell a kernel of a fixed length how many keys a group has, of which P are the prefix."""
    kernel = sublayer.kernel
    options: dict[str, Any] = {"type": kernel} if isinstance(kernel, str) else dict(kernel)
    if look_up(KERNELS, str(options.get("type")), "attention kernel").needs_length:
        keys = PATTERNS.build(sublayer.patterns[0]).num_keys(size)
        options.setdefault("length", keys + (0 if sublayer.cls == "skip" else prefix))
    return replace(sublayer, kernel=options)


def whole_grid(config: EncoderConfig) -> Iterator[str]:
    """Yield parts of an encoder that need the tokens of all places, so that none can be dropped."""
    for sublayer in config.sublayers:
        for pattern in sublayer.patterns:
            if not PATTERNS.build(pattern).any_places:
                yield f"pattern {pattern!r}"
        kernel = str(name_of(sublayer.kernel))
        if KERNELS[kernel].needs_length:
            yield f"kernel {kernel!r}"
        yield from (f"shift {shift!r}" for shift in sublayer.shifts)
    if isinstance(config.mlp, Mapping) and config.mlp.get("depthwise"):
        yield "depthwise=True"


def _read_frames(shifts: Sequence[Choice]) -> list[int]:
    """Return from which frames tokens take channels, 0 for their own."""
    return [frames for shift in shifts for frames, _, _ in build_shift(shift).offsets]
