"""Frames that a model has seen are not computed again: ``reuse_frames``."""

import copy
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

LIMIT = 96  # blocks to keep, if a call has less than half as many
Model = TypeVar("Model", bound=nn.Module)


def reuse_frames(model: Model) -> Model:
    """Make a copy of a model that computes equal frames once, whatever clips they belong to.

    For models whose first stage sees frames, or blocks of them, on their own (``frame_stage``): a
    ``VideoTransformer`` whose first encoder has ``frames='pool'`` or ``'average'`` (ViViT's model
    2, space-only) or attends within blocks of frames only (``Encoder.frame_block``), and recurrent
    models with a backbone of frames. They are compared by their pixels, so clips may come in any
    order. Outputs change by rounding only.

    Args:
        model: A model in evaluation mode, such as a result of ``optimize_for_inference``. The copy
            shares its weights, which must not change then.

    Returns:
        The copy, or the model itself if it has no such stage.
    """
    if not _stages(model):
        return model
    model = copy.deepcopy(model, {id(x): x for x in (*model.parameters(), *model.buffers())})
    for owner, name, axis, size in _stages(model):
        setattr(owner, name, ReuseBlocks(getattr(owner, name), LIMIT, axis, size))
    return model


def frames_of_stage(model: nn.Module) -> int | None:
    """Return how many frames the first stage sees at a time; None if it sees whole clips."""
    sizes = [size for *_, size in _stages(model)]
    return prod(sizes) if sizes else None


def _stages(model: nn.Module) -> list[tuple[nn.Module, str, int, int]]:
    return [stage for part in model.modules() for stage in getattr(part, "frame_stage", ())]


class ReuseBlocks:
    """A function of independent blocks of clips that is called with blocks that are new only.

    Calls with gradients, in graphs, or with further arguments pass through, and so do clips that
    blocks do not fill.

    Args:
        function: Function from a tensor to a tensor, or to a tuple of tensors or None, whose first
            axis is that of the clips; in those of the output the next one is that of time.
        limit: Number of blocks to keep, or twice those of a call if these are more. A call finds
            those that it cannot replace.
        axis: Axis of time of the input. 0: the clips are the blocks.
        size: Length of a block.
    """

    def __init__(self, function: Callable, limit: int, axis: int = 0, size: int = 1) -> None:
        self.function, self.limit, self.axis, self.size = function, limit, axis, size
        # Inputs and outputs have places in tensors that stay: many small ones that come and go
        # would leave holes in the memory of the process. Each place is used in its turn.
        self.kept: list[Any] = []  # tensors, or None
        self.keys: list[bytes | None] = []  # of the inputs, by place
        self.next = 0  # place
        self.kind: tuple = ()  # of what is kept

    def __call__(self, clips: Tensor, *rest: Any, **options: Any) -> Any:
        """Return ``function(clips)``; the first of ``rest``, ``clip_rows``, is for training."""
        given = any(x is not None for x in (*rest[1:], *options.values()))
        given |= torch.is_grad_enabled() or torch.compiler.is_compiling()
        if given or clips.shape[self.axis] % self.size:
            return self.function(clips, *rest, **options)
        rows = clips
        if self.axis:
            rows = clips.unflatten(self.axis, (-1, self.size)).movedim(self.axis, 1).flatten(0, 1)
        inputs, places, new = self._inputs(rows), list[int](), list[int]()
        size = len(inputs)
        # Oldest first, without those whose turn may come in this call.
        safe = [(self.next + i) % size for i in range(len(rows), size)]
        known = {self.keys[place]: place for place in safe}
        for i, key in enumerate(samples(rows)):
            place = known.get(key)
            if place is None or not torch.equal(inputs[place], rows[i]):
                place = known[key] = self.next
                inputs[place], self.keys[place] = rows[i], key
                self.next = (place + 1) % size
                new.append(i)
            places.append(place)
        if new:
            kept, self.kept = self.kept, []  # so that nothing is known after an error
            fresh = self.function(rows if len(new) == len(rows) else rows[new])
            self.is_tuple = isinstance(fresh, tuple)
            found = list(fresh) if self.is_tuple else [fresh]
            kept = kept or [inputs, *_each(lambda x: x.new_empty(size, *x.shape[1:]), found)]
            for old, x in zip(kept[1:], found, strict=True):
                if old is not None:
                    old[[places[i] for i in new]] = x
            self.kept = kept
        if len(new) < len(rows):
            found = _each(lambda x: x[places], self.kept[1:])
        if self.axis:
            found = _each(lambda x: x.unflatten(0, (len(clips), -1)).flatten(1, 2), found)
        return tuple(found) if self.is_tuple else found[0]

    def _inputs(self, rows: Tensor) -> Tensor:
        """Return the rows that are kept, or a new tensor for others if these do not fit."""
        device, inference = rows.device.type, torch.is_inference_mode_enabled()
        autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        kind = (rows.shape[1:], rows.dtype, rows.device, inference, autocast)
        if self.kept and kind == self.kind and len(self.keys) >= 2 * len(rows):
            return self.kept[0]
        count = max(self.limit, 2 * len(rows))
        self.kept, self.kind, self.keys, self.next = [], kind, [None] * count, 0
        return rows.new_empty(count, *rows.shape[1:])


def _each(change: Callable[[Tensor], Tensor], parts: list[Tensor | None]) -> list[Tensor | None]:
    return [None if x is None else change(x) for x in parts]


def samples(rows: Tensor) -> list[bytes]:
    """Return some values of each row of a tensor (N, ...); those of equal rows are equal."""
    flat = rows.flatten(1)
    values = flat[:, :: flat.shape[1] // 256 | 1].float().cpu()
    return [one.numpy().tobytes() for one in values]
