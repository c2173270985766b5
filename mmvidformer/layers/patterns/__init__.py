"""Attention patterns: who attends to whom.

A pattern regroups a grid of tokens into independent sequences, its groups. Letters: B batch, T H W
grid, n heads, d head width, G groups, S tokens per group, S' keys per group.
"""

from functools import partial

from mmvidformer.layers.lookup import Registry
from mmvidformer.layers.patterns.base import Grid, LocalPattern, Pattern, StridedPattern, grid_size
from mmvidformer.layers.patterns.blocks import dilated_time, frames, window
from mmvidformer.layers.patterns.causal import causal

__all__ = ["PATTERNS", "Grid", "Pattern", "grid_size"]

# Patterns, or functions of their options.
PATTERNS: Registry[Pattern] = Registry(
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
