from collections import deque
from typing import Any

from torch import Tensor

Past = tuple[Tensor, ...]


class StreamState:
    """State of a stream: what causal attention remembers of earlier frames.

    Each step fills a new state and leaves the previous one as it is.

    Args:
        previous: State after the previous frames, or None at the start of a stream.

    Attributes:
        steps: Number of tokens along time so far.
        size: Shape (B, C, H, W) of the frames.
        past: What each causal attention remembers, in the order in which they run.
    """

    def __init__(self, previous: "StreamState | None" = None) -> None:
        self.steps: int = 0 if previous is None else previous.steps
        self.size: tuple[int, ...] | None = None if previous is None else previous.size
        self.past: list[Past] = []
        self._previous = deque(() if previous is None else previous.past)

    def resume(self, kernel: Any, *inputs: object) -> Tensor:
        """Run ``kernel.resume`` with what it remembers, and keep what it remembers now."""
        past = self._previous.popleft() if self._previous else None
        out, past = kernel.resume(*inputs, past)
        # A small part of a large tensor would keep all of it in memory.
        self.past.append(
            tuple(x.clone() if x.untyped_storage().nbytes() > 2 * x.nbytes else x for x in past)
        )
        return out
