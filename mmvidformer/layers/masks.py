"""Masks of attention: tensors, and the causal mask, which needs none."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True)
class Causal:
    """A token attends to its own frame and to earlier ones. The queries are the last of the keys.

    Args:
        step: Number of consecutive tokens of a frame.
        past: Number of frames that a token sees, its own included; None for all.
        before: Number of frames of the stream before those of the queries. 0: this is its start, or
            a whole clip. Of streams of different lengths, (B, 1, 1, 1).
    """

    step: int = 1
    past: int | None = None
    before: Tensor | int = field(default=0, repr=False, compare=False)

    @property
    def kinds(self) -> frozenset[str]:
        """What a kernel must support (``layers.abilities``)."""
        return frozenset({"causal"} if self.past is None else {"causal", "past"})

    def newest(self, keys: Tensor) -> Tensor:
        """Return those of the keys (..., S', d) that the last frame sees."""
        return keys if self.past is None else keys[..., -self.past * self.step :, :]

    def blocks(self, queries: int, keys: int) -> Iterator[tuple[slice, slice]]:
        """Split S queries into runs of at most ``past`` frames, each with the keys that it sees."""
        if self.past is None:  # a loop over lengths would be compiled for each of them
            yield slice(None), slice(None)
            return
        size = self.past * self.step
        before = keys - queries
        for start in range(0, queries, size):
            stop = min(start + size, queries)
            first = max(before + start + self.step - size, 0)
            yield slice(start, stop), slice(first, before + stop)

    def pairs(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Return which keys each query sees, (S, S'), or None if all queries see all keys."""
        if queries == self.step and (self.past is None or keys <= self.past * self.step):
            return None
        frames = torch.arange(keys, device=device) // self.step
        ago = frames[keys - queries :, None] - frames
        return ago >= 0 if self.past is None else (ago >= 0) & (ago < self.past)


Mask: TypeAlias = Tensor | Causal | None
