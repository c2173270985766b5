"""What a HORST layer attends to: its last states, and the places within them."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mmvidformer.apis import Capture, Recognizer, StreamFrame
from mmvidformer.errors import UserError
from mmvidformer.models.horst.statt import States, Statt


class StateWeights(NamedTuple):
    """Attention of a frame to the states of earlier frames, oldest first.

    Attributes:
        states: Weights of the S states (S,); they sum to 1 (temporal attention).
        places: Weights of the places of each state (S, h, w), each between 0 and 1 (spatial
            attention).
    """

    states: Tensor
    places: Tensor

    @property
    def seen(self) -> Tensor:
        """How much of the past comes in at each place (h, w)."""
        return torch.einsum("s,shw->hw", self.states, self.places)


@contextmanager
def watch_states(neck: nn.Module, layer: int = -1) -> Iterator[deque[StateWeights | None]]:
    """Record the attention of a layer while the frames of a clip are streamed through a ``Horst``.

    The layer's encoder and query are computed a second time for it.

    Yields:
        The attention of the last frame; None if it is the first, which has no earlier states.

    Raises:
        UserError: If the neck has no such layer, or the layer's attention has no weights of
            states and places.
    """
    layers = getattr(neck, "layers", [])
    if not layers:
        raise UserError("the model has no HORST layers to look at")
    if not -len(layers) <= layer < len(layers):
        raise UserError(f"layer must be an index of the neck's {len(layers)} layers, got {layer}")
    attend = getattr(layers[layer], "attend", layers[layer])
    if not hasattr(attend, "maps"):
        raise UserError(
            f"{type(attend).__name__} of {type(neck).__name__} has no weights of states and places"
        )
    latest: deque[StateWeights | None] = deque(maxlen=1)

    @torch.no_grad()
    def record(module: nn.Module, args: tuple) -> None:
        clip, _, state = args[:3]
        if state is None:
            latest.append(None)
            return
        query = module.query(module.encode(module.pool(clip[:, 0])))
        states, places = maps_by_age(module.attend, query, state)
        latest.append(StateWeights(states[0].float().cpu(), places[0].float().cpu()))

    with layers[layer].register_forward_pre_hook(record):
        yield latest


def maps_by_age(attend: Statt, q: Tensor, states: States) -> tuple[Tensor, Tensor]:
    """Return the weights of states and places, as in the paper's figures 4 and 5.

    Args:
        attend: The attention of a layer.
        q: Query (B, C, h, w).
        states: States before it.

    Returns:
        Weights of the states, oldest first, (B, s), which sum to 1, and of their places
        (B, s, h, w), each between 0 and 1; means over the heads. s is the most of a clip.
    """
    heads, order = (-1, attend.num_heads), states.key.shape[1]
    weights, places = (x.unflatten(0, heads).mean(1) for x in attend.maps(q, states))
    length = int(states.steps.max().clamp(1, order))
    ages = torch.arange(length, 0, -1, device=q.device)
    slots = (states.steps.clamp(min=1)[:, None] - ages) % order
    places = places.take_along_dim(slots[:, :, None, None], dim=1)
    return weights.take_along_dim(slots, dim=1), places


@dataclass(frozen=True)
class LookBack:
    """A frame of a stream, and what a layer attends to.

    Attributes:
        frame: The frame, with predictions.
        past: Frames of the states, oldest first.
        attention: Attention to these states; None for the first frame.
    """

    frame: StreamFrame
    past: list[StreamFrame]
    attention: StateWeights | None


def look_back(recognizer: Recognizer, source: Capture, layer: int = -1) -> Iterator[LookBack]:
    """Predict after each frame of a source, and record what a layer attends to.

    ``source`` is that of ``Recognizer.frame_by_frame``, ``layer`` that of ``watch_states``.
    """
    neck = getattr(recognizer.model, "neck", None)
    with watch_states(neck, layer) as latest:
        past: deque[StreamFrame] = deque(maxlen=neck.layers[layer].order)
        for frame in recognizer.frame_by_frame(source):
            count = len(latest[0].states) if latest[0] else 0
            yield LookBack(frame, list(past)[len(past) - count :], latest[0])
            past.append(frame)
