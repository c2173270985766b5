"""What is exported: a recognizer from pixels to logits, for clips or for the frames of a stream."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mmvidformer.lookup import look_up
from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.horst.statt import Entry

PIXELS = {"uint8": torch.uint8, "float32": torch.float32}


class Normalize(nn.Module):
    """Normalization of pixels from 0 to 255, as an ``ActionDataPreprocessor`` does it."""

    def __init__(self, preprocessor: nn.Module) -> None:
        super().__init__()
        self.swap = bool(preprocessor.to_rgb)
        for name, default in (("mean", 0.0), ("std", 1.0)):
            value = torch.as_tensor(getattr(preprocessor, name, default))
            self.register_buffer(name, value.detach().clone().flatten())

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalize pixels (B, 3, ...) of any numeric type."""
        pixels = pixels.to(self.mean.dtype)
        if self.swap:  # RGB and BGR
            pixels = pixels.flip(1)
        shape = (-1, *[1] * (pixels.dim() - 2))
        return (pixels - self.mean.view(shape)) / self.std.view(shape)


class _Graph(nn.Module):
    input_names: Sequence[str]
    output_names: Sequence[str]
    calls = 1  # number of successive calls that export compares

    def __init__(self, model: nn.Module, size: Sequence[int], pixels: str | None = None) -> None:
        super().__init__()
        self.size = tuple(size)
        self.normalize = Normalize(model.data_preprocessor) if pixels else nn.Identity()
        self.dtype = look_up(PIXELS, pixels, "type of pixels") if pixels else None
        self.backbone, self.head = model.backbone, model.cls_head

    def _images(self, batch: int) -> Tensor:
        shape = (batch, *self.size)
        return torch.randint(256, shape).to(self.dtype) if self.dtype else torch.randn(shape)


class ClipGraph(_Graph):
    """A recognizer of clips, from one view of each to logits.

    Args:
        model: A recognizer of backbone and head.
        size: Size of the clips, (3, T, H, W).
        pixels: ``'uint8'`` or ``'float32'``: the inputs are pixels from 0 to 255, which the graph
            normalizes; None: the inputs are normalized.

    Raises:
        KeyError: If ``pixels`` is unknown.
    """

    input_names, output_names = ("clip",), ("logits",)

    def forward(self, clip: Tensor) -> Tensor:
        """Map clips (B, 3, T, H, W) to logits (B, classes)."""
        return self.head(self.backbone(self.normalize(clip)))

    def inputs(self, batch: int, calls: int = 1) -> list[tuple[Tensor, ...]]:
        """Random inputs of several calls."""
        return [(self._images(batch),) for _ in range(calls)]


class StreamGraph(_Graph):
    """A recurrent recognizer that takes one frame, with its state as inputs and outputs.

    The state is a set of tensors of constant shape: ``count`` (B,), the number of frames that each
    clip has behind it, and for each layer ``key_<i>`` and ``value_<i>`` (B, S, C, h, w), and
    ``gate_<i>`` (B, S, 1, h, w) if the attention filters keys. A clip starts with zeros. To
    restart a clip it is enough to set its ``count`` to zero.

    Args:
        model: A ``RecurrentRecognizer`` with ``Horst`` as its neck.
        size: Size of the frames, (3, H, W).
        pixels: See ``ClipGraph``.
        ahead: Number of steps to look ahead, for heads of anticipation; default: the head's
            ``logged_time``.

    Raises:
        KeyError: If ``pixels`` is unknown.
        ValueError: If the model has another neck.
    """

    def __init__(
        self,
        model: nn.Module,
        size: Sequence[int],
        pixels: str | None = None,
        ahead: int | None = None,
    ) -> None:
        super().__init__(model, size, pixels)
        self.neck = getattr(model, "neck", None)
        if not isinstance(self.neck, Horst):
            raise ValueError(f"a stream needs Horst as its neck, got {type(self.neck).__name__}")
        ahead = ahead or getattr(self.head, "logged_time", None)
        self.options = {} if ahead is None else {"ahead": [ahead]}
        with torch.no_grad():
            states = self.neck.step(self.backbone(self.normalize(self._images(1))))[1]
        # Shape of each part of a layer's state, by its name.
        self.shapes = [
            {
                f"{field}_{i}": (layer.order, *part.shape[1:])
                for field, part in zip(Entry._fields, state[0], strict=True)
                if part is not None
            }
            for i, (layer, state) in enumerate(zip(self.neck.layers, states, strict=True))
        ]
        self.tasks = list(getattr(self.head, "tasks", None) or ())
        state_names = ["count", *(name for layer in self.shapes for name in layer)]
        self.input_names = ["frame", *state_names]
        self.output_names = [*(self.tasks or ["logits"]), *(f"next_{name}" for name in state_names)]
        self.calls = max(layer.order for layer in self.neck.layers) + 2

    def forward(self, frame: Tensor, count: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """Take a frame.

        Args:
            frame: Frames (B, 3, H, W).
            count: Number of frames behind each clip (B,), integers.
            *parts: The state, in the order of ``input_names``.

        Returns:
            Logits (B, classes), for each task if there are several; the next count and state.
        """
        left = iter(parts)
        states = []
        for layer in self.shapes:
            by_field = {name.split("_")[0]: next(left).unbind(1) for name in layer}
            none = [None] * len(by_field["key"])
            fields = (by_field.get(field, none) for field in Entry._fields)
            states.append(tuple(Entry(*entry) for entry in zip(*fields, strict=True)))
        output, states = self.neck.step(self.backbone(self.normalize(frame)), states, count=count)
        found = self.head(HorstOutput(*(part[:, None] for part in output)), **self.options)
        logits = [found[task][:, -1] for task in self.tasks] if self.tasks else [found]
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

    @torch.no_grad()
    def inputs(self, batch: int, calls: int = 1) -> list[tuple[Tensor, ...]]:
        """Inputs of the first calls for random clips, each with the state of the one before."""
        found, state = [], self.start(batch)
        for _ in range(calls):
            found.append((self._images(batch), *state))
            state = self(*found[-1])[-len(state) :]
        return found


def make_graph(
    model: nn.Module,
    size: Sequence[int],
    pixels: str | None = None,
    ahead: int | None = None,
) -> ClipGraph | StreamGraph:
    """Make the graph of a recognizer: a ``StreamGraph`` if it is recurrent, or a ``ClipGraph``."""
    model = model.eval()
    if hasattr(model, "stream"):
        return StreamGraph(model, size, pixels, ahead).eval()
    return ClipGraph(model, size, pixels).eval()
