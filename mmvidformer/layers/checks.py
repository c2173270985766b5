"""Which parts of an attention go together, and which of them run frame by frame."""

from collections.abc import Iterator, Sequence

from mmvidformer.layers.config import Choice, ClsPolicy
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.masks import MASK_KINDS
from mmvidformer.layers.patterns import Pattern
from mmvidformer.layers.shift import Shift

# Patterns and shifts, each with what it was built from.
Patterns = Sequence[tuple[Choice, Pattern]]
Shifts = Sequence[tuple[Choice, Shift]]


def check(patterns: Patterns, kernel: Kernel, cls: ClsPolicy, shifts: Shifts) -> None:
    """Check that the parts of an attention go together.

    Raises:
        ValueError: If the kernel does not support a pattern or the class token, or if class token
            or shifts would carry later frames to a causal pattern.
    """
    kind = type(kernel).__name__
    if cls == "global" and kernel.needs_queries:
        raise ValueError(
            f"{kind} needs several queries, but with cls='global' the class token attends alone; "
            "use cls='mean' or 'skip'"
        )
    reads_later = any(time > 0 for time in _times(shifts))
    for given, pattern in patterns:
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
                f"shifts={[given for given, _ in shifts]}"
            )


def obstacles(patterns: Patterns, kernel: Kernel, shifts: Shifts) -> Iterator[str]:
    """Say what keeps an attention from running frame by frame, and what to use instead."""
    for given, pattern in patterns:
        if not pattern.causal:
            use = "use causal_time, causal_joint or a pattern within frames"
            yield f"pattern {given!r} sees later frames; {use}"
        if "causal" in pattern.masks and not kernel.resumes:
            able = " or ".join(name for name, other in KERNELS.items() if other.resumes)
            yield f"{type(kernel).__name__} depends on the clip's length; use kernel {able}"
    if any(_times(shifts)):
        yield f"shifts {[given for given, _ in shifts]} read other frames; use spatial shifts"


def _times(shifts: Shifts) -> list[int]:
    """Return from which frames tokens take channels, 0 for their own."""
    return [frames for _, shift in shifts for frames, _, _ in shift.offsets]
