"""What is exported: a recognizer from pixels to logits, for clips or for the frames of a stream."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.export.streams import make_stepper
from mmvidformer.lookup import look_up
from mmvidformer.models.fast.run_lengths import without_runs
from mmvidformer.models.horst.layer import Features
from mmvidformer.tasks.table import task_of_head

PIXELS = {"uint8": torch.uint8, "float32": torch.float32}


class ClipGraph(nn.Module):
    """A recognizer of clips, from one view of each to logits.

    Args:
        model: A recognizer, on any device. The graph has a copy in evaluation mode, which shares
            its weights.
        size: Size of the clips, (3, T, H, W).
        pixels: ``'uint8'`` or ``'float32'``: the inputs are pixels from 0 to 255, which the graph
            normalizes; None: the inputs are normalized.
        ahead: Number of time steps from the last frame to the action, for heads of anticipation.
            Default: the head's ``logged_time``.

    Attributes:
        input_names: Names of the inputs: ``clip``, and for ``BoxesHead`` ``boxes`` (n, 5), as it
            reads them.
        output_names: Names of the outputs: ``logits``, ``values``, or the tasks of anticipation;
            after ``logits`` of a ``CameraMotionHead`` its ``rates``.

    Raises:
        KeyError: If ``pixels`` is unknown.
        UserError: If ``ahead`` is given and the head does not anticipate.
    """

    input_names: Sequence[str] = ("clip",)
    calls = 1  # number of successive calls that export compares

    def __init__(
        self,
        model: nn.Module,
        size: Sequence[int],
        pixels: str | None = None,
        ahead: int | None = None,
    ) -> None:
        super().__init__()
        tensors = (*model.parameters(), *model.buffers())
        copied = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
        self.model = without_runs(copied).eval()  # which depend on the clip
        self.size = tuple(size)
        self.dtype = look_up(PIXELS, pixels, "type of pixels") if pixels else None
        self.task = task_of_head(model.cls_head)
        self.input_names = self.task.input_names
        if ahead and "ahead" not in self.task.head_options:
            raise UserError(f"ahead needs AnticipationHead, got {type(model.cls_head).__name__}")
        self.options = {"ahead": ahead} if ahead else {}
        self.output_names: Sequence[str] = self.task.output_names(model.cls_head)

    def forward(self, clip: Tensor, boxes: Tensor | None = None) -> tuple[Tensor, ...]:
        """Map clips (B, 3, T, H, W) to logits (B, classes), for each of ``output_names``."""
        features = self.model.extract_feat(self.normalize(clip)[:, None])[0]
        return self._classify(features, **({} if boxes is None else {"boxes": boxes}))

    def normalize(self, images: Tensor) -> Tensor:
        """Normalize pixels (B, 3, ...) as the preprocessor does, if the inputs are pixels."""
        if self.dtype is None:
            return images
        preprocessor, images = self.model.data_preprocessor, images.float()
        shape = 3, *[1] * (images.dim() - 2)
        mean = getattr(preprocessor, "mean", images.new_zeros(3)).view(shape)
        std = getattr(preprocessor, "std", images.new_ones(3)).view(shape)
        images = images.flip(1) if preprocessor.to_rgb else images  # RGB and BGR
        return (images - mean) / std

    def inputs(self, batch: int, calls: int = 1) -> list[tuple[Tensor, ...]]:
        """Random inputs of several calls, on the device of the model."""
        return [(self._images(batch), *self._boxes(batch)) for _ in range(calls)]

    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _boxes(self, batch: int) -> list[Tensor]:
        if "boxes" not in self.input_names:
            return []
        clips, corners = torch.arange(2 * batch) % batch, torch.rand(2 * batch, 2, 2)
        corners = torch.cat([corners.amin(dim=1), corners.amax(dim=1)], dim=1)
        return [torch.cat([clips[:, None], corners], dim=1).to(self._device())]

    def _images(self, batch: int) -> Tensor:
        shape = (batch, *self.size)
        images = torch.randint(256, shape).to(self.dtype) if self.dtype else torch.randn(shape)
        return images.to(self._device())

    def _classify(self, features: Features, **more: Tensor) -> tuple[Tensor, ...]:
        return self.task.run_head(self.model.cls_head, features, **self.options, **more)


class StreamGraph(ClipGraph):
    """A recurrent recognizer that takes one frame, with its state as inputs and outputs.

    The state is a set of tensors of constant shape: ``count``, the number of frames so far, and
    what each layer remembers, such as ``key_<i>`` and ``value_<i>`` (``export.streams``). A stream
    starts with zeros. To restart it, it is enough to set the count to zero.

    Arguments are those of ``ClipGraph``, with the size of the frames, (3, H, W).

    Raises:
        UserError: As ``ClipGraph``, and if the model does not run frame by frame with a state of
            constant size.
    """

    def __init__(self, model: nn.Module, *args: Any, **options: Any) -> None:
        super().__init__(model, *args, **options)
        with torch.no_grad():
            self.stepper = make_stepper(self.model, self.normalize(self._images(1)))
        names = ["count", *self.stepper.shapes]
        self.input_names = ["frame", *names]
        self.output_names = [*self.output_names, *(f"next_{name}" for name in names)]
        self.calls = self.stepper.calls

    def forward(self, frame: Tensor, count: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """Take a frame.

        Args:
            frame: Frames (B, 3, H, W).
            count: Number of frames so far, integers: of HORST that of each clip (B,), of a causal
                transformer one for all, without axes.
            *parts: The state, in the order of ``input_names``.

        Returns:
            Logits (B, classes), for each task if there are several; the next count and state.
        """
        images = self.normalize(frame)
        output, count, after = self.stepper.step(self.model, images, count, parts)
        return (*self._classify(output), count, *after)

    def start(self, batch: int) -> tuple[Tensor, ...]:
        """Count and state before the first frame: zeros."""
        shapes = self.stepper.shapes.values()
        parts = [torch.zeros(batch, *shape, device=self._device()) for shape in shapes]
        return (self.stepper.start(batch).to(self._device()), *parts)

    @torch.no_grad()
    def inputs(self, batch: int, calls: int = 1) -> list[tuple[Tensor, ...]]:
        """Inputs of the first calls for random clips, each with the state of the one before."""
        inputs_of_calls, state = [], self.start(batch)
        for _ in range(calls):
            inputs = (self._images(batch), *state)
            inputs_of_calls.append(inputs)
            state = self(*inputs)[-len(state) :]
        return inputs_of_calls


def make_graph(model: nn.Module, size: Sequence[int], *args: Any, **options: Any) -> ClipGraph:
    """Make a ``ClipGraph`` with these arguments, or a ``StreamGraph`` if the size is (3, H, W)."""
    return (StreamGraph if len(size) == 3 else ClipGraph)(model, size, *args, **options)
