"""Frames that a model has seen are not computed again: ``reuse_frames``."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mmvidformer.layers import TubeletEmbedding

Model = TypeVar("Model", bound=nn.Module)


def reuse_frames(model: Model, limit: int = 96) -> Model:
    """Make a copy of a model that computes equal frames once, whatever clips they belong to.

    For models whose first stage sees frames, or tubelets, on their own (``frame_stage``): a
    ``VideoTransformer`` with ``frames='pool'`` or ``'average'`` in its first encoder (ViViT's model
    2, space-only), and recurrent models with a backbone of frames. They are compared by their
    pixels, so clips may come in any order. Outputs change by rounding only.

    Args:
        model: A model in evaluation mode, such as a result of ``optimize_for_inference``. The copy
            shares its weights, which must not change then.
        limit: Number of frames, or tubelets, that are remembered from call to call; the default is
            enough for windows of 64 frames that start at each frame. Those of one call are all
            shared.

    Returns:
        The copy, or the model itself if it has no such stage.
    """
    if not any(getattr(part, "frame_stage", ()) for part in model.modules()):
        return model
    model = copy.deepcopy(model, {id(x): x for x in (*model.parameters(), *model.buffers())})
    for part in list(model.modules()):
        for owner, name in getattr(part, "frame_stage", ()):
            reuse = ReuseRows(getattr(owner, name), limit)
            tubelets = isinstance(owner, TubeletEmbedding)
            setattr(owner, name, _ReuseTubelets(owner, reuse) if tubelets else reuse)
    return model


def frames_of_stage(model: nn.Module) -> int | None:
    """Return how many frames the first stage sees at a time; None if it sees whole clips."""
    stages = [owner for part in model.modules() for owner, _ in getattr(part, "frame_stage", ())]
    return getattr(stages[0], "tubelet", (1,))[0] if stages else None


class ReuseRows:
    """A function of independent rows (N, ...) that is called with rows that are new only.

    Calls with gradients, in graphs, or with further arguments pass through.

    Args:
        function: Function from a tensor to a tensor, or to a tuple of tensors or None, whose first
            axis is that of the rows.
        limit: Number of rows to remember, or twice those of a call if these are more.
    """

    def __init__(self, function: Callable[..., Any], limit: int) -> None:
        self.function, self.limit, self.is_tuple = function, limit, False
        # Rows and outputs have places in tensors that stay: many small ones that come and go would
        # leave holes in the memory of the process.
        self.kept: list[Tensor | None] = []
        self.places: dict[bytes, int] = {}  # the least recently used first
        self.free: list[int] = []
        self.kind: tuple = ()  # of what is kept

    def __call__(self, rows: Tensor, clip_rows: object = None, *rest: Any, **options: Any) -> Any:
        """Return ``function(rows)``; ``clip_rows`` matters in training only."""
        given = any(x is not None for x in (*rest, *options.values()))
        if given or torch.is_grad_enabled() or torch.compiler.is_compiling():
            more = () if clip_rows is None else (clip_rows, *rest)
            return self.function(rows, *more, **options)
        inputs, places, new, replaced = self._inputs(rows), list[int](), list[int](), list[int]()
        keys = samples(rows)
        self.places |= {key: self.places.pop(key) for key in {*keys} & self.places.keys()}
        for i, key in enumerate(keys):
            place = self.places.pop(key, None)
            if place is None or not torch.equal(inputs[place], rows[i]):
                replaced += [] if place is None else [place]  # an earlier row of this call, perhaps
                place = self.free.pop() if self.free else self.places.pop(next(iter(self.places)))
                inputs[place] = rows[i]
                new.append(i)
            self.places[key] = place
            places.append(place)
        if new:
            kept, self.kept = self.kept, []  # so that nothing is known after an error
            outputs = self.function(rows[new])
            self.is_tuple = isinstance(outputs, tuple)
            parts = outputs if self.is_tuple else (outputs,)
            size = len(inputs)
            kept = kept or [
                inputs,
                *(x if x is None else x.new_empty(size, *x.shape[1:]) for x in parts),
            ]
            for old, x in zip(kept[1:], parts, strict=True):
                if old is not None:
                    old[[places[i] for i in new]] = x
            self.kept = kept
        self.free += replaced
        outputs = tuple(x if x is None else x[places] for x in self.kept[1:])
        return outputs if self.is_tuple else outputs[0]

    def _inputs(self, rows: Tensor) -> Tensor:
        """Return the rows that are kept, or a new tensor for others if these do not fit."""
        device, inference = rows.device.type, torch.is_inference_mode_enabled()
        autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        kind = (rows.shape[1:], rows.dtype, rows.device, inference, autocast)
        kept: Any = self.kept[0] if self.kept else rows[:0]
        if kind != self.kind or len(kept) < 2 * len(rows):
            count = max(self.limit, 2 * len(rows))
            kept = rows.new_empty(count, *rows.shape[1:])
            self.kept, self.kind, self.places, self.free = [], kind, {}, list(range(count))
        return kept


class _ReuseTubelets:
    """Forward pass of an embedding of clips whose tubelets are the rows of ``reuse``."""

    def __init__(self, embed: TubeletEmbedding, reuse: ReuseRows) -> None:
        self.embed, self.reuse = embed, reuse

    def __call__(self, clip: Tensor) -> Tensor:
        frames = self.embed.tubelet[0]
        count = clip.shape[2] // frames if clip.dim() == 5 else 0
        if not count:
            return self.reuse.function(clip)  # raises an error
        tubelets = clip[:, :, : count * frames].unflatten(2, (count, frames)).transpose(1, 2)
        return self.reuse(tubelets.flatten(0, 1)).unflatten(0, (-1, count))[:, :, 0]


def samples(rows: Tensor) -> list[bytes]:
    """Return some values of each row of a tensor (N, ...); those of equal rows are equal."""
    flat = rows.flatten(1)
    values = flat[:, :: flat.shape[1] // 256 | 1].float().cpu()
    return [one.numpy().tobytes() for one in values]
