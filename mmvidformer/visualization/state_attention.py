"""What a HORST layer looks back at: weights of its last states, and of their places.

A state is that of a frame before. Its places are multiplied by weights between 0 and 1 (spatial
attention), and the states are averaged by weights that sum to 1 (temporal attention).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn


class StateWeights(NamedTuple):
    """Attention of one frame to the states before it, oldest first.

    Attributes:
        states: Weights of the S states (S,), which sum to 1.
        places: Weights of the places of each state (S, h, w), each between 0 and 1.
    """

    states: Tensor
    places: Tensor

    @property
    def seen(self) -> Tensor:
        """How much of the past comes in at each place (h, w): the mean of the places by states."""
        return torch.einsum("s,shw->hw", self.states, self.places)


class Watch:
    """Holds the attention of the last frame of a stream.

    Attributes:
        latest: None before the second frame, as the first has nothing to look back at.
        order: Most states that the layer looks back at.
    """

    def __init__(self, order: int) -> None:
        self.latest: StateWeights | None = None
        self.order = order


@contextmanager
def watch_states(neck: nn.Module, layer: int = -1) -> Iterator[Watch]:
    """Note the attention of a layer while frames of one clip are streamed through the neck.

    The layer's encoder and query are computed once more for it.

    Args:
        neck: A ``Horst``.
        layer: Which of its layers, from 0; negative numbers count from the last.

    Yields:
        What is noted.

    Raises:
        ValueError: If the neck has no such layer, or one whose attention is not made of weights
            of states and places; when streaming, if there are several clips or frames at a time.
    """
    layers = getattr(neck, "layers", [])
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"there is no layer {layer} among the {len(layers)} of the neck")
    module = layers[layer]
    if not hasattr(getattr(module, "attend", None), "maps"):
        kind = type(getattr(module, "attend", module)).__name__
        raise ValueError(f"{kind} of {type(neck).__name__} has no weights of states and places")
    watch = Watch(module.order)

    @torch.no_grad()
    def note(module: nn.Module, args: tuple) -> None:
        clip, _, state = args[:3]
        if clip.shape[:2] != (1, 1):
            raise ValueError(f"one frame of one clip can be watched, not {tuple(clip.shape[:2])}")
        watch.latest = None
        if state:
            states, places = module.attention_maps(clip[:, 0], state)
            watch.latest = StateWeights(states[0].float().cpu(), places[0].float().cpu())

    hook = module.register_forward_pre_hook(note)
    try:
        yield watch
    finally:
        hook.remove()
