"""Attention patterns: who attends to whom.

A pattern regroups a grid of tokens into independent sequences, its groups. Letters: B batch, T H W
grid, n heads, d head width, G groups, S tokens per group, S' keys per group.
"""

from functools import partial

from mmvidformer.layers.patterns.base import Pattern
from mmvidformer.layers.patterns.causal import causal
from mmvidformer.layers.patterns.local import LocalPattern, StridedPattern
from mmvidformer.layers.patterns.window import window
from mmvidformer.lookup import Registry

__all__ = ["PATTERNS", "Pattern"]

# Patterns, or functions of their options.
PATTERNS: Registry[Pattern] = Registry(
    "pattern",
    {
        "joint": Pattern("b t h w n d -> b 1 n (t h w) d"),
        "space": Pattern("b t h w n d -> b t n (h w) d"),
        "time": Pattern("b t h w n d -> b (h w) n t d"),
        "width": Pattern("b t h w n d -> b (t h) n w d"),
        "height": Pattern("b t h w n d -> b (t w) n h d"),
        "local": LocalPattern("b t h w n d -> b (h w) n t d", frozenset({"other_keys", "keys"})),
        "strided": StridedPattern("b t h w n d -> b 1 n (t h w) d", frozenset({"other_keys"})),
        "causal_time": partial(causal, "b t h w n d -> b (h w) n t d"),
        "causal_joint": partial(causal, "b t h w n d -> b 1 n (t h w) d"),
        "window": window,
    },
    Pattern,
)
