"""Attention patterns: who attends to whom.

A pattern regroups a grid of tokens into independent sequences, its groups. Letters: B batch, T H W
grid, n heads, d head width, G groups, S tokens per group, S' keys per group.
"""

from collections.abc import Mapping
from functools import partial

from mmvidformer.layers.patterns.base import Grid, LocalPattern, Pattern, StridedPattern, grid_size
from mmvidformer.layers.patterns.blocks import dilated_time, frames, window
from mmvidformer.layers.patterns.causal import causal
from mmvidformer.lookup import Registry

__all__ = ["PATTERNS", "Grid", "Pattern", "get_pattern", "grid_size"]

# Patterns, or functions of their options.
PATTERNS = Registry(
    "pattern",
    {
        "joint": Pattern(groups="", tokens="thw"),
        "space": Pattern(groups="t", tokens="hw"),
        "time": Pattern(groups="hw", tokens="t"),
        "width": Pattern(groups="th", tokens="w"),
        "height": Pattern(groups="tw", tokens="h"),
        "local": LocalPattern(groups="hw", tokens="t", masks=frozenset({"keys"})),
        "strided": StridedPattern(groups="", tokens="thw"),
        "causal_time": partial(causal, "hw", "t"),
        "causal_joint": partial(causal, "", "thw"),
        "window": window,
        "frames": frames,
        "dilated_time": dilated_time,
    },
)


def get_pattern(pattern: str | Mapping) -> Pattern:
    """Look up a pattern.

    Args:
        pattern: A name in ``PATTERNS``, or a dictionary with the name as ``type`` and options, such
            as ``dict(type='window', size=(2, 7, 7), shift=(1, 3, 3))``.

    Raises:
        KeyError: If there is no such pattern; the message lists the names.
        ValueError: If an option is unknown or out of range.
    """
    return PATTERNS.build(pattern)
