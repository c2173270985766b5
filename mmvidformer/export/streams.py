"""The state of a recurrent recognizer as tensors of constant shape, by name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.stream import StreamState
from mmvidformer.models.horst.layer import HorstLayer, HorstOutput
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.horst.recognizer import to_maps
from mmvidformer.models.horst.statt import States

PARTS = ("key", "value", "gate")  # of ``States``
Shapes = Mapping[str, tuple[int, ...]]


class Stepper(ABC):
    """Runs a recognizer on one frame of each clip, with a state that starts with zeros.

    Attributes:
        shapes: Shapes of the tensors of the state without the axis of the batch, by name.
        calls: Number of successive frames for which export compares a file with the model.
    """

    shapes: Shapes
    calls: int

    @abstractmethod
    def start(self, batch: int) -> Tensor:
        """Return the count of the frames so far of a batch of clips: zero."""

    @abstractmethod
    def step(
        self, model: nn.Module, images: Tensor, count: Tensor, parts: Sequence[Tensor]
    ) -> tuple[HorstOutput, Tensor, list[Tensor]]:
        """Run a model on normalized images (B, 3, H, W).

        Returns:
            What the head reads, with one step; the next count and state.
        """


class HorstStepper(Stepper):
    """Steps of HORST, whose state is that of ``States`` of each layer.

    The count is that of each clip (B,).
    """

    def __init__(self, model: Any, images: Tensor) -> None:
        states = model.neck.step(model.backbone(images))[1]
        self._fields: list[list[str]] = []  # of the layers
        shapes: dict[str, tuple[int, ...]] = {}
        for i, state in enumerate(states):
            parts = {name: part for name in PARTS if (part := getattr(state, name)) is not None}
            self._fields.append(list(parts))
            shapes |= {f"{field}_{i}": x.shape[1:] for field, x in parts.items()}
        self.shapes = shapes
        self.calls = max(layer.order for layer in model.neck.layers) + 2  # the ring begins anew

    def start(self, batch: int) -> Tensor:
        """Return the counts (B,)."""
        return torch.zeros(batch, dtype=torch.long)

    def step(
        self, model: Any, images: Tensor, count: Tensor, parts: Sequence[Tensor]
    ) -> tuple[HorstOutput, Tensor, list[Tensor]]:
        """Run a model; see ``Stepper``."""
        left, states = iter(parts), []
        for layer, fields in zip(model.neck.layers, self._fields, strict=True):
            named = {"gate": None, **{field: next(left) for field in fields}}
            states.append(_start(layer, States(count, **named)))
        output, states = model.neck.step(model.backbone(images), states)
        after = []
        for state in states:
            after += [x for x in (state.key, state.value, state.gate) if x is not None]
        return HorstOutput(*(part[:, None] for part in output)), count + 1, after


class CausalStepper(Stepper):
    """Steps of a causal transformer, whose state is what each causal attention remembers.

    The count is one for all clips (a tensor without axes): they start together.

    Raises:
        UserError: If the state grows, or a kernel does not name its parts.
    """

    calls = 6

    def __init__(self, model: Any, images: Tensor) -> None:
        first = model.backbone.step(images[:, :, None])[1]
        second = model.backbone.step(images[:, :, None], first)[1]
        self._types: list[Any] = []  # of what the attentions remember
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (past, later) in enumerate(zip(first.past, second.past, strict=True)):
            if not hasattr(past, "_fields"):
                raise UserError(
                    f"causal attention {i} remembers a {type(past).__name__}, which has no names; "
                    "resume of its kernel must return a NamedTuple"
                )
            if [x.shape for x in past] != [x.shape for x in later]:
                raise UserError(
                    "the state grows with each frame; give causal patterns a past, such as "
                    "dict(type='causal_time', past=16)"
                )
            self._types.append(type(past))
            shapes |= {f"{field}_{i}": x.shape for field, x in zip(past._fields, past, strict=True)}
        self.shapes = shapes

    def start(self, batch: int) -> Tensor:
        """Return the count, a tensor without axes."""
        return torch.zeros((), dtype=torch.long)

    def step(
        self, model: Any, images: Tensor, count: Tensor, parts: Sequence[Tensor]
    ) -> tuple[HorstOutput, Tensor, list[Tensor]]:
        """Run a model; see ``Stepper``."""
        batch, left = images.shape[0], iter(parts)
        state = StreamState()
        state.steps, state.size = count, tuple(images.shape)
        is_first = count == 0
        for past_type in self._types:
            pasts = (next(left).flatten(0, 1).masked_fill(is_first, 0) for _ in past_type._fields)
            state.past.append(past_type(*pasts))
        tokens, state = model.backbone.step(images[:, :, None], state)
        maps = to_maps(tokens)
        flat = (x for past in state.past for x in past)
        shapes = self.shapes.values()
        after = [x.reshape(batch, *shape) for x, shape in zip(flat, shapes, strict=True)]
        return HorstOutput(maps, maps, maps), state.steps, after


def make_stepper(model: nn.Module, images: Tensor) -> Stepper:
    """Make what runs a recognizer frame by frame; ``images`` (1, 3, H, W) tell the sizes.

    Raises:
        UserError: If the model does not run frame by frame with a state of constant size.
    """
    neck = getattr(model, "neck", None)
    if type(neck) is Horst:  # not what has other layers
        return HorstStepper(model, images)
    if neck is None and hasattr(model, "stream"):
        return CausalStepper(model, images)
    raise UserError(
        "only a RecurrentRecognizer with the neck Horst, or without a neck, is exported frame by "
        f"frame, got {type(model).__name__} with the neck {type(neck).__name__}; give the size "
        "(3, T, H, W) to export whole clips"
    )


def _start(layer: HorstLayer, state: States) -> States:
    """Put the state before the first step into the clips that are there."""
    is_first = (state.steps == 0)[:, None, None, None, None]
    start = layer.start(state.key[:, 0])
    parts = {field: old for field in PARTS if (old := getattr(state, field)) is not None}
    for field, old in parts.items():
        parts[field] = torch.where(is_first, getattr(start, field), old)
    return state._replace(**parts)
