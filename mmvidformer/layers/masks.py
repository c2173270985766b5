"""Masks of attention: their kinds, and the causal mask, which needs no tensor."""

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

# What patterns ask of kernels. Each kernel lists in ``masks`` what it supports.
MASK_KINDS = {
    "keys": "mask keys that are not queries",
    "padding": "ignore padding in a group",
    "pairs": "mask pairs of a query and a key",
    "causal": "mask later frames",
}


@dataclass(frozen=True)
class Causal:
    """A token attends to its own step and to earlier ones. Queries and keys are the same tokens.

    Args:
        step: Number of consecutive tokens of a step, such as those of a frame.
    """

    step: int = 1


Mask: TypeAlias = Tensor | Causal | None
