"""What a HORST layer attends to: its last states, and the places within them.

A state belongs to an earlier frame. Spatial attention multiplies its places by weights between 0
and 1, temporal attention averages the states with weights that sum to 1.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mmvidformer.apis import Capture, StreamFrame, StreamRecognizer
from mmvidformer.visualization.heatmaps import HeatStrip, enlarge, fade, overlay


class StateWeights(NamedTuple):
    """Attention of a frame to the earlier states, oldest first.

    Attributes:
        states: Weights of the S states (S,); they sum to 1.
        places: Weights of the places of each state (S, h, w), each between 0 and 1.
    """

    states: Tensor
    places: Tensor

    @property
    def seen(self) -> Tensor:
        """How much of the past comes in at each place (h, w)."""
        return torch.einsum("s,shw->hw", self.states, self.places)


@dataclass
class Watch:
    """The attention of the last frame of a stream.

    Attributes:
        order: Most states that the layer attends to.
        latest: None before the second frame, as the first has no earlier states.
    """

    order: int
    latest: StateWeights | None = None


@contextmanager
def watch_states(neck: nn.Module, layer: int = -1) -> Iterator[Watch]:
    """Record the attention of a layer while the frames of a clip are streamed through the neck.

    The layer's encoder and query are computed a second time for it.

    Args:
        neck: A ``Horst``.
        layer: Index of its layer; negative indices count from the last.

    Yields:
        The record.

    Raises:
        ValueError: If the neck has no such layer, or the layer's attention has no weights of
            states and places; while streaming, if several clips or frames come at a time.
    """
    layers = getattr(neck, "layers", [])
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"layer must be an index of the neck's {len(layers)} layers, got {layer}")
    module = layers[layer]
    if not hasattr(getattr(module, "attend", None), "maps"):
        kind = type(getattr(module, "attend", module)).__name__
        raise ValueError(f"{kind} of {type(neck).__name__} has no weights of states and places")
    watch = Watch(module.order)

    @torch.no_grad()
    def record(module: nn.Module, args: tuple) -> None:
        clip, _, state = args[:3]
        if clip.shape[:2] != (1, 1):
            raise ValueError(f"expected one frame of one clip, got {tuple(clip.shape[:2])}")
        watch.latest = None
        if state:
            states, places = module.attention_maps(clip[:, 0], state)
            watch.latest = StateWeights(states[0].float().cpu(), places[0].float().cpu())

    hook = module.register_forward_pre_hook(record)
    try:
        yield watch
    finally:
        hook.remove()


@dataclass(frozen=True)
class LookBack:
    """A frame of a stream, and what a layer attends to.

    Attributes:
        frame: The frame, with predictions.
        past: Frames of the states, oldest first.
        attention: Attention to these states; None for the first frame.
        order: Most states that the layer attends to.
    """

    frame: StreamFrame
    past: list[StreamFrame]
    attention: StateWeights | None
    order: int

    def page_parts(self) -> dict:
        """Arguments of ``draw_page``: heat on the frame, and the past frames by weight."""
        picture = self.frame.picture
        legend = "attention to the past: 0 (blue) to 1 (red)"
        if self.attention is None:
            return {"overlay": picture, "legend": legend, "columns": self.order}
        heat = enlarge(self.attention.seen.numpy()[None], picture.shape[:2])
        weights = self.attention.states.numpy()
        faded = fade(np.stack([frame.picture for frame in self.past]), weights)
        return {
            "overlay": overlay(picture[None], heat, limits=(0, 1))[0],
            "legend": legend,
            "past": [(one, f"{weight:.2f}") for one, weight in zip(faded, weights, strict=True)],
            "columns": self.order,
        }

    def to_strip(self, title: str) -> HeatStrip:
        """Frames of the states and the current one, with weights and heat, for ``draw_strips``.

        The heat of a past frame is the weights of its places; that of the current frame is their
        mean over the states (``StateWeights.seen``).
        """
        frames = [*self.past, self.frame]
        pictures = np.stack([frame.picture for frame in frames])
        places = torch.cat([self.attention.places, self.attention.seen[None]]).numpy()
        captions = [f"{frame.seconds:.2f} s" for frame in frames]
        captions[-1] += " (current)"
        heat = enlarge(places, pictures.shape[1:3])
        weights = self.attention.states.numpy()
        return HeatStrip(title, pictures, heat, captions, "weight of a place", weights)


def look_back(
    recognizer: StreamRecognizer, source: Capture, layer: int = -1, restart: float | None = None
) -> Iterator[LookBack]:
    """Predict after each frame of a source, and record what a layer attends to.

    Args:
        recognizer: A recognizer whose neck is ``Horst``.
        source: See ``StreamRecognizer``.
        layer: See ``watch_states``.
        restart: See ``StreamRecognizer``.
    """
    with watch_states(recognizer.model.neck, layer) as watch:
        past: deque[StreamFrame] = deque(maxlen=watch.order)
        for frame in recognizer(source, restart):
            count = len(watch.latest.states) if watch.latest else 0
            yield LookBack(frame, list(past)[len(past) - count :], watch.latest, watch.order)
            past.append(frame)
