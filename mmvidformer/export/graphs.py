"""What is exported: a recogniser from pixels to logits, on clips, or on one frame after another."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from mmvidformer.lookup import look_up
from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.horst.statt import Entry

PIXELS = {"uint8": torch.uint8, "float32": torch.float32}


class Graph(Protocol):
    """A module with named inputs and outputs, and examples of them."""

    input_names: Sequence[str]
    output_names: Sequence[str]

    def example(self, batch: int) -> tuple[Tensor, ...]:
        """Random inputs."""

    def rounds(self, batch: int, count: int) -> list[tuple[Tensor, ...]]:
        """Random inputs of several calls, each going on from the one before."""


class Pixels(nn.Module):
    """From pixels of 0 to 255 to what the backbone takes, as the recogniser's preprocessor does.

    Args:
        preprocessor: MMAction2's ``ActionDataPreprocessor``.

    Raises:
        ValueError: If it is no such preprocessor.
    """

    def __init__(self, preprocessor: nn.Module) -> None:
        super().__init__()
        if not hasattr(preprocessor, "to_rgb"):
            raise ValueError(
                "pixels as input need a model with an ActionDataPreprocessor, got "
                f"{type(preprocessor).__name__}"
            )
        self.swap = bool(preprocessor.to_rgb)
        mean = getattr(preprocessor, "mean", torch.zeros(1))
        std = getattr(preprocessor, "std", torch.ones(1))
        self.register_buffer("mean", mean.detach().clone().flatten())
        self.register_buffer("std", std.detach().clone().flatten())

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalise pixels (B, 3, ...) of any numeric type."""
        pixels = pixels.to(self.mean.dtype)
        if self.swap:  # RGB and BGR
            pixels = pixels.flip(1)
        shape = (-1, *[1] * (pixels.dim() - 2))
        return (pixels - self.mean.view(shape)) / self.std.view(shape)


class _Graph(nn.Module):
    def __init__(self, model: nn.Module, size: Sequence[int], pixels: str | None) -> None:
        super().__init__()
        self.size = tuple(size)
        self.pixels = Pixels(model.data_preprocessor) if pixels else nn.Identity()
        self.dtype = look_up(PIXELS, pixels, "type of pixels") if pixels else None

    def _images(self, batch: int) -> Tensor:
        shape = (batch, *self.size)
        if self.dtype is None:
            return torch.randn(shape)
        return torch.randint(0, 256, shape).to(self.dtype)


class ClipGraph(_Graph):
    """A recogniser of clips, from one view of each to logits.

    Args:
        model: A recogniser of backbone and head.
        size: Of the clips: (3, T, H, W).
        pixels: ``'uint8'`` or ``'float32'``: input are pixels of 0 to 255, which the graph
            normalises; None: input is normalised.

    Raises:
        KeyError: If ``pixels`` is unknown.
    """

    def __init__(self, model: nn.Module, size: Sequence[int], pixels: str | None = None) -> None:
        super().__init__(model, size, pixels)
        self.backbone, self.head = model.backbone, model.cls_head
        self.input_names, self.output_names = ["clip"], ["logits"]

    def forward(self, clip: Tensor) -> Tensor:
        """Map clips (B, 3, T, H, W) to logits (B, classes)."""
        return self.head(self.backbone(self.pixels(clip)))

    def example(self, batch: int) -> tuple[Tensor, ...]:
        """Random clips."""
        return (self._images(batch),)

    def rounds(self, batch: int, count: int) -> list[tuple[Tensor, ...]]:
        """Random clips, ``count`` times."""
        return [self.example(batch) for _ in range(count)]


class StreamGraph(_Graph):
    """A recurrent recogniser that takes one frame, with the state as input and output.

    The state are tensors of constant shape: ``count`` (B,), the frames that each clip has behind
    it, and for each layer ``key_<i>`` and ``value_<i>`` (B, S, C, h, w), and ``gate_<i>``
    (B, S, 1, h, w) where the attention filters keys. A clip starts with zeros; setting a clip's
    ``count`` to zero is enough to start it anew.

    Args:
        model: A ``RecurrentRecognizer`` with ``Horst`` as its neck.
        size: Of the frames: (3, H, W).
        pixels: As of ``ClipGraph``.
        ahead: For heads of anticipation: how many steps ahead to look; default: the head's
            ``logged_time``.

    Raises:
        KeyError: If ``pixels`` is unknown.
        ValueError: If the neck is another.
    """

    def __init__(
        self,
        model: nn.Module,
        size: Sequence[int],
        pixels: str | None = None,
        ahead: int | None = None,
    ) -> None:
        super().__init__(model, size, pixels)
        if not isinstance(model.neck, Horst):
            raise ValueError(
                f"a stream is exported with Horst as neck, got {type(model.neck).__name__}"
            )
        self.backbone, self.neck, self.head = model.backbone, model.neck, model.cls_head
        ahead = ahead or getattr(model.cls_head, "logged_time", None)
        self.options = {} if ahead is None else {"ahead": [ahead]}
        self.shapes = self._state_shapes()
        state_names = [name for layer in self.shapes for name in layer]
        self.input_names = ["frame", "count", *state_names]
        tasks = getattr(model.cls_head, "tasks", None)
        self.tasks = None if tasks is None else list(tasks)
        logits = self.tasks or ["logits"]
        self.output_names = [*logits, *(f"next_{name}" for name in self.input_names[1:])]

    @torch.no_grad()
    def _state_shapes(self) -> list[dict[str, tuple[int, ...]]]:
        states = self.neck.step(self.backbone(self.pixels(self._images(1))))[1]
        return [
            {
                f"{field}_{i}": (layer.order, *part.shape[1:])
                for field, part in zip(Entry._fields, state[0], strict=True)
                if part is not None
            }
            for i, (layer, state) in enumerate(zip(self.neck.layers, states, strict=True))
        ]

    def forward(self, frame: Tensor, count: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """Take a frame.

        Args:
            frame: (B, 3, H, W).
            count: Frames behind each clip (B,), integers.
            *parts: The state, in the order of ``input_names``.

        Returns:
            Logits (B, classes), or of each task one after the other, the next count and the next
            state.
        """
        left = iter(parts)
        states = []
        for layer in self.shapes:
            by_field = {name.split("_")[0]: next(left).unbind(1) for name in layer}
            fields = [by_field.get(field) for field in Entry._fields]
            states.append(
                tuple(
                    Entry(*(None if field is None else field[i] for field in fields))
                    for i in range(len(by_field["key"]))
                )
            )
        output, states = self.neck.step(self.backbone(self.pixels(frame)), states, count=count)
        logits = self.head(HorstOutput(*(part[:, None] for part in output)), **self.options)
        if self.tasks is not None:
            logits = [logits[task][:, -1] for task in self.tasks]
        else:
            logits = [logits]
        after = [
            torch.stack(part, dim=1)
            for state in states
            for part in zip(*state, strict=True)
            if part[0] is not None
        ]
        return (*logits, count + 1, *after)

    def start(self, batch: int) -> tuple[Tensor, ...]:
        """Count and state before the first frame: zeros."""
        state = [torch.zeros(batch, *shape) for layer in self.shapes for shape in layer.values()]
        return (torch.zeros(batch, dtype=torch.long), *state)

    def example(self, batch: int) -> tuple[Tensor, ...]:
        """Random frames and an empty state."""
        return (self._images(batch), *self.start(batch))

    @torch.no_grad()
    def rounds(self, batch: int, count: int) -> list[tuple[Tensor, ...]]:
        """Inputs of ``count`` steps of random clips, from the start."""
        found, state = [], self.start(batch)
        for _ in range(count):
            found.append((self._images(batch), *state))
            state = self(*found[-1])[-len(state) :]
        return found


def make_graph(
    model: nn.Module,
    size: Sequence[int],
    pixels: str | None = None,
    ahead: int | None = None,
) -> ClipGraph | StreamGraph:
    """Make what a recogniser is exported as: with a neck a stream, else a clip.

    Arguments and errors are those of ``StreamGraph`` and ``ClipGraph``.
    """
    model = model.eval()
    if getattr(model, "with_neck", False):
        return StreamGraph(model, size, pixels, ahead).eval()
    return ClipGraph(model, size, pixels).eval()
