"""Frames that a model has seen are not computed again: ``reuse_frames``."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mmvidformer.layers import TubeletEmbedding

Model = TypeVar("Model", bound=nn.Module)


def reuse_frames(model: Model, limit: int = 2**27) -> Model:
    """Make a copy of a model that computes equal frames once, whatever clips they belong to.

    For models whose first stage sees frames, or tubelets, on their own (``frame_stage``): a
    ``VideoTransformer`` with ``frames='pool'`` or ``'average'`` in its first encoder (ViViT's model
    2, space-only), and recurrent models with a backbone of frames. They are compared by their
    pixels, so clips may come in any order. Outputs change by rounding only.

    Args:
        model: A model in evaluation mode, such as a result of ``optimize_for_inference``. The copy
            shares its weights, which must not change then.
        limit: Bytes of frames and outputs that each part of the stage remembers from call to call.
            The frames of one call are all shared.

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
        limit: Bytes of rows and outputs to remember.
    """

    def __init__(self, function: Callable[..., Any], limit: int) -> None:
        self.function, self.limit = function, limit
        # Rows and outputs of calls by their numbers, the least recently used first. They are kept
        # as they are: copies of single rows would leave holes in memory.
        self.batches: dict[int, list[Tensor | None]] = {}
        self.places: dict[tuple, tuple[int, int]] = {}  # number of a call and of its row
        self.calls, self.is_tuple = 0, False

    @property
    def size(self) -> int:
        """Bytes that are remembered."""
        return sum(x.nbytes for one in self.batches.values() for x in one if x is not None)

    def __call__(self, rows: Tensor, clip_rows: object = None, *rest: Any, **options: Any) -> Any:
        """Return ``function(rows)``; ``clip_rows`` matters in training only."""
        given = any(x is not None for x in (*rest, *options.values()))
        if given or torch.is_grad_enabled() or torch.compiler.is_compiling():
            more = () if clip_rows is None else (clip_rows, *rest)
            return self.function(rows, *more, **options)
        found, new, self.calls = list[tuple[int, int]](), list[int](), self.calls + 1
        for i, key in enumerate(samples(rows)):
            call, row = self.places.get(key, (0, 0))
            other: Any = rows[new[row]] if call == self.calls else None
            if call in self.batches:
                other = self.batches[call][0][row]
            if other is None or not torch.equal(rows[i], other):
                self.places[key] = call, row = self.calls, len(new)
                new.append(i)
            found.append((call, row))
        if new:
            fresh = rows[new]
            outputs = self.function(fresh)
            self.is_tuple = isinstance(outputs, tuple)
            self.batches[self.calls] = [fresh, *(outputs if self.is_tuple else (outputs,))]
        for call in dict.fromkeys(call for call, _ in found):
            self.batches[call] = self.batches.pop(call)  # the most recently used are last
        each = [[x if x is None else x[row] for x in self.batches[call][1:]] for call, row in found]
        columns = zip(*each, strict=True)
        outputs = tuple(None if one[0] is None else torch.stack(one) for one in columns)
        self._forget()
        return outputs if self.is_tuple else outputs[0]

    def _forget(self) -> None:
        while self.size > self.limit:
            del self.batches[next(iter(self.batches))]
        self.places = {key: one for key, one in self.places.items() if one[0] in self.batches}


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


def samples(rows: Tensor) -> list[tuple]:
    """Return a key for each row of a tensor (N, ...), some of its values: equal for equal rows."""
    kind = rows.device.type
    autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    flat = rows.flatten(1)
    values = flat[:, :: flat.shape[1] // 256 | 1].float().cpu()
    return [(rows.dtype, rows.shape[1:], autocast, one.numpy().tobytes()) for one in values]
