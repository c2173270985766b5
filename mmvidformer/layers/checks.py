"""Which parts of an encoder go together, and which of them run frame by frame."""

from collections.abc import Iterator, Mapping, Sequence

from mmvidformer.layers.config import Choice, ClsPolicy, EncoderConfig
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.masks import MASK_KINDS
from mmvidformer.layers.patterns import PATTERNS, Grid
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


def check_positions(encoders: Sequence[EncoderConfig]) -> None:
    """Raise a ValueError if encoders have positions in time, but all of these see single frames."""
    timed = [one for one in encoders if _name(one.positions) == "time"]
    if timed and all(one.frames != "together" for one in timed):
        raise ValueError(
            f"positions='time' has no effect with frames={timed[0].frames!r}, which encodes frames "
            "one by one; use 'none' or 'space'"
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
        for one in [one for block in config.blocks for one in block]:
            where = f"encoders.{number}, sub-layer {one.name}"
            kernel = one.kernel if isinstance(one.kernel, str) else one.kernel["type"]
            for given in one.patterns:
                pattern = PATTERNS.build(given)
                if not pattern.causal:
                    use = "use causal_time, causal_joint or a pattern within frames"
                    yield f"{where}: pattern {given!r} sees later frames; {use}"
                if "causal" in pattern.masks and kernel not in able:
                    use = f"use {' or '.join(able)}"
                    yield f"{where}: kernel {kernel!r} depends on the clip's length; {use}"
            if any(_read_frames(one.shifts)):
                yield f"{where}: shifts {list(one.shifts)} read other frames; use spatial shifts"


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


def _name(choice: Choice) -> str | None:
    return choice if isinstance(choice, str) else choice.get("type")


def _read_frames(shifts: Sequence[Choice]) -> list[int]:
    """Return from which frames tokens take channels, 0 for their own."""
    return [frames for shift in shifts for frames, _, _ in build_shift(shift).offsets]
