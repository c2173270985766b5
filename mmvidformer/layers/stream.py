from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from mmvidformer.layers.masks import Causal

Past = tuple[Tensor, ...]  # a named tuple, if the stream is to be exported


class StreamState:
    """State of a stream: what causal attention remembers of earlier frames.

    Each step fills a new state and leaves the previous one as it is. All that changes from step to
    step is in tensors, whose shapes stay if the past is bounded; so a compiled step runs for all.
    ``torch.compile`` makes a graph of the first step and one of all others. Without a bound, it
    makes a third one, whose length is a variable.

    Args:
        previous: State after the previous frames, or None at the start of a stream.
        limit: Most tokens along time, where a position table ends. Default: there is no end.
        device: Where the model runs.

    Attributes:
        steps: Number of tokens along time so far, an integer tensor without axes; of streams that
            were joined, (B, 1).
        size: Shape (B, C, H, W) of the frames.
        past: What each causal attention remembers, in the order in which they run.
    """

    def __init__(
        self,
        previous: "StreamState | None" = None,
        limit: int | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.limit = limit
        self.past: list[Past] = []
        self.size: tuple[int, ...] = ()
        if previous is None:
            self.steps = torch.zeros((), dtype=torch.long, device=device)
            self._previous: deque[Past] = deque()
        else:
            self.steps, self.size = previous.steps, previous.size
            self._previous = deque(previous.past)

    def resume(self, kernel: Any, q: Tensor, k: Tensor, v: Tensor, mask: Causal) -> Tensor:
        """Run ``kernel.resume`` with what it remembers, and keep what it remembers now."""
        past = self._previous.popleft() if self._previous else None
        before = self.steps
        if before.dim():  # of each sequence, as (..., n, S, d)
            before = before.repeat_interleave(len(q) // len(before), dim=0)[..., None, None]
        mask = replace(self._within_limit(mask), before=before)
        out, past = kernel.resume(q, k, v, mask, past)
        if not torch.compiler.is_compiling():
            # A small part of a large tensor would keep all of it in memory.
            past = tree_map(lambda x: x.clone() if _is_small_part(x) else x, past)
        self.past.append(past)
        return out

    def look_back(
        self, k: Tensor, v: Tensor, mask: Causal, number: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the keys and values that the last frame sees, before ``resume`` runs.

        Args:
            k: Keys (..., S, d) of the next frames.
            v: Their values.
            mask: The mask of the attention.
            number: How many attentions resume before it.

        Returns:
            Keys and values (..., S', d), and which of them are there, (1, S'), or of streams that
            were joined (B, 1, 1, S'); None: all.
        """
        mask = self._within_limit(mask)
        if number >= len(self._previous):
            return mask.newest(k), mask.newest(v), None
        frames = k.shape[-2] // mask.step
        past = self._previous[number]
        k, v = torch.cat([past[0], k], dim=-2), torch.cat([past[1], v], dim=-2)
        if mask.past is None:
            return k, v, None
        steps = self.steps[..., None, None]
        hidden = (mask.past - frames - steps) * mask.step  # keys before the stream's start
        is_there = torch.arange(mask.past * mask.step, device=k.device) >= hidden
        return mask.newest(k), mask.newest(v), is_there

    def _within_limit(self, mask: Causal) -> Causal:
        if self.limit is None:
            return mask
        return replace(mask, past=min(mask.past or self.limit, self.limit))


def shapes_of(state: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of a state and of its frames; states of equal ones can be joined."""
    if state is None:
        return None
    past, size = (state.past, state.size) if isinstance(state, StreamState) else (state, ())
    return size, *(x.shape for x in tree_leaves(past) if x is not None)


def join_states(states: Sequence[Any]) -> Any:
    """Return the states of single streams, of any age, as those of a batch."""
    first = states[0]
    if first is None or len(states) == 1:
        return first
    if not isinstance(first, StreamState):
        return tree_map(lambda *rows: None if rows[0] is None else torch.cat(rows), *states)
    joined = StreamState(first)
    joined.past = join_states([state.past for state in states])
    joined.steps = torch.stack([state.steps for state in states])[:, None]
    joined.size = (len(states), *first.size[1:])
    return joined


def split_states(state: Any, count: int) -> Iterator[Any]:
    """Yield the states of the streams of a batch, each in memory of its own."""
    for number in range(count):
        if count == 1:
            yield state
        elif not isinstance(state, StreamState):
            yield _row(state, number, count)
        else:
            alone = StreamState(state)
            alone.past, alone.size = _row(state.past, number, count), (1, *state.size[1:])
            # Streams that start together have one number.
            alone.steps = state.steps[number, 0] if state.steps.dim() else state.steps
            yield alone


def _row(state: Any, number: int, count: int) -> Any:
    return tree_map(lambda x: None if x is None else x.chunk(count)[number].clone(), state)


def _is_small_part(x: Tensor) -> bool:
    return x.untyped_storage().nbytes() > 2 * x.nbytes
