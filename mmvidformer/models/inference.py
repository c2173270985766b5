"""Exact savings for inference: ``optimize_for_inference`` and ``reuse_frames``."""

import copy
import logging
import threading
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mmvidformer.layers import (
    AttentionSubLayer,
    DropPath,
    Encoder,
    LayerScale,
    Mlp,
    TransformerBlock,
)
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.layers.linear import GatedLinear, LoraLinear, QueryValueBias, has_hooks, is_plain
from mmvidformer.models.cpu import CpuLinear, feed_forward
from mmvidformer.models.video_transformer import VideoTransformer

logger = logging.getLogger("mmvidformer")

BLOCKS = 96  # to keep, if a call has less than half as many
# Of all that is kept: threads may share a model. A lock of each copy could not be copied itself.
REUSE = threading.RLock()
Kind = TypeVar("Kind", bound=nn.Module)


def optimize_for_inference(model: nn.Module, share_weights: bool = False) -> nn.Module:
    """Make a copy of a model that gives the same outputs with less computation.

    - TimeSformer's fc after an attention is folded into the output projection before it, and a
      layer scale into the linear layer before it.
    - If only the class token is read, the last block computes no output projection and MLP of the
      grid, and ``forward_features`` of the copy returns None for it.
    - Dropout and stochastic depth are removed, and LoRA is merged into the weights.
    - On a CPU, linear layers run in oneDNN, with the activation if it comes next. For bfloat16, a
      copy of the weights is kept.

    Weights are folded in float64, so outputs change by rounding only. Names and values of the
    weights change: load checkpoints first, and save those of the original. Hooks, wrappers (such as
    LoRA) and quantizers of linear layers take effect before and after, but wrap folded projections
    before; a layer that has one is left as it is.

    Args:
        model: A backbone of this package, or a module that contains some, such as a recognizer that
            MMAction2 built from a config.
        share_weights: Whether the copy shares the weights that are not folded, which saves memory.
            The model must not change then.

    Returns:
        The copy, in evaluation mode; its ``train()`` raises a RuntimeError. A model without such a
        backbone is returned itself, unchanged, with a warning in the log.
    """
    if not any(isinstance(part, VideoTransformer) for part in model.modules()):
        logger.warning(
            "%s is returned unchanged: it contains no VideoTransformer (ViViT, TimeSformer, ...)",
            type(model).__name__,
        )
        return model
    shared = (*model.parameters(), *model.buffers()) if share_weights else ()
    model = copy.deepcopy(model, {id(tensor): tensor for tensor in shared})
    for name, part in list(model.named_modules()):
        if isinstance(part, nn.Dropout):
            model.set_submodule(name, nn.Identity())
        if isinstance(part, VideoTransformer):
            _optimize(part)
    model.eval()
    for part in model.modules():
        if isinstance(part, VideoTransformer) or part is model:
            part.train = partial(_refuse_training, part)  # type: ignore[method-assign]
    return model


def _refuse_training(model: nn.Module, mode: bool = True) -> nn.Module:
    if mode:
        raise RuntimeError(
            f"this {type(model).__name__} is optimized for inference and cannot be trained, as its "
            "layers are folded and its dropout is removed; train the original model"
        )
    return type(model).train(model, False)


def _optimize(backbone: VideoTransformer) -> None:
    """Change a backbone in place."""
    for name, layer in list(backbone.named_modules()):
        if isinstance(layer, LoraLinear) and not has_hooks(layer) and "forward" not in vars(layer):
            backbone.set_submodule(name, layer.merged())
    for part in list(backbone.modules()):
        if isinstance(part, Encoder):
            part.cls_only = part.can_leave_grid()
        elif isinstance(part, AttentionSubLayer):
            if is_plain(part.attn.qkv, QueryValueBias):
                part.attn.qkv = part.attn.qkv.with_full_bias()
            if is_plain(part.fc, GatedLinear):
                part.fc = part.fc.without_gate()
            for name in ("fc", "scale"):
                after = getattr(part, name)
                plain = is_plain(after, nn.Linear) or is_plain(after, LayerScale)
                if plain and is_plain(part.attn.proj, nn.Linear):
                    _fold(after, part.attn.proj)
                    setattr(part, name, nn.Identity())
                elif not isinstance(after, nn.Identity):
                    break  # a layer after one that is left does not commute with it
        elif isinstance(part, TransformerBlock) and is_plain(part.scale, LayerScale):
            if isinstance(part.mlp, Mlp) and is_plain(part.mlp.fc2, nn.Linear):
                _fold(part.scale, part.mlp.fc2)
                part.scale = nn.Identity()
        elif isinstance(part, DropPath):
            part.rate = 0.0
        elif isinstance(part, SoftmaxKernel):
            part.dropout = 0.0
        elif is_plain(part, Mlp):
            part.forward = partial(feed_forward, part)  # type: ignore[method-assign]
        elif is_plain(part, nn.Linear):
            part.forward = CpuLinear(part, frozen=True)  # type: ignore[method-assign]


@torch.no_grad()
def _fold(after: nn.Linear | LayerScale, proj: nn.Linear) -> None:
    """Let ``proj`` compute, with new weights, what it and the layer after it compute."""
    both = (*after.parameters(), *proj.parameters())
    *outer, weight, bias = (x.cpu().double() for x in both)  # Apple's GPUs lack float64
    if len(outer) == 1:
        weight, bias = outer[0][:, None] * weight, outer[0] * bias
    else:
        weight, bias = outer[0] @ weight, outer[0] @ bias + outer[1]
    for name, value in {"weight": weight, "bias": bias}.items():
        old = getattr(proj, name)
        setattr(proj, name, nn.Parameter(value.to(old), old.requires_grad))


def reuse_frames(model: Kind) -> Kind:
    """Make a copy of a model that computes equal frames once, whatever clips they belong to.

    For models whose first stage sees frames, or blocks of them, on their own (``frame_stage``): a
    ``VideoTransformer`` whose first encoder has ``frames='pool'`` or ``'average'`` (ViViT's model
    2, space-only) or attends within blocks of frames only (``frame_block``), and recurrent
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
        setattr(owner, name, ReuseBlocks(getattr(owner, name), BLOCKS, axis, size))
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
        self.input_format: tuple = ()  # shape, type and mode of what is kept

    def __call__(self, clips: Tensor, *arguments: Any, **options: Any) -> Any:
        """Return ``function(clips)``; the next argument, ``clip_rows``, is for training."""
        further = (*arguments[1:], *options.values())
        has_arguments = any(value is not None and value is not False for value in further)
        in_graph = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if has_arguments or in_graph or clips.shape[self.axis] % self.size:
            return self.function(clips, *arguments, **options)
        rows = clips.unflatten(self.axis, (-1, self.size)).movedim(self.axis, 1).flatten(0, 1)
        with REUSE:
            outputs = self._reuse(rows)
        outputs = _map(lambda x: x.unflatten(0, (len(clips), -1)).flatten(1, 2), outputs)
        return tuple(outputs) if self.is_tuple else outputs[0]

    def _reuse(self, rows: Tensor) -> list[Tensor | None]:
        device, inference = rows.device.type, torch.is_inference_mode_enabled()
        autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        input_format = (rows.shape[1:], rows.dtype, rows.device, inference, autocast)
        changed = input_format != self.input_format
        if not self.kept or changed or len(self.keys) < 2 * len(rows):
            self.kept, self.input_format, self.next = [], input_format, 0
            self.keys = [None] * max(self.limit, 2 * len(rows))
            self.kept = [rows.new_empty(len(self.keys), *rows.shape[1:])]
        (inputs, *outputs), places, new = self.kept, list[int](), list[int]()
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
            self.kept = []  # so that nothing is known after an error
            fresh = self.function(rows if len(new) == len(rows) else rows[new])
            self.is_tuple = isinstance(fresh, tuple)
            computed = list(fresh) if self.is_tuple else [fresh]
            outputs = outputs or _map(lambda x: x.new_empty(size, *x.shape[1:]), computed)
            for old, x in zip(outputs, computed, strict=True):
                if old is not None:
                    old[[places[i] for i in new]] = x
            self.kept = [inputs, *outputs]
        if len(new) == len(rows):
            return computed
        return _map(lambda x: x[places], outputs)


def _map(change: Callable[[Tensor], Tensor], parts: list[Tensor | None]) -> list[Tensor | None]:
    return [None if x is None else change(x) for x in parts]


def samples(rows: Tensor) -> list[bytes]:
    """Return some values of each row of a tensor (N, ...); those of equal rows are equal."""
    flat = rows.flatten(1)
    values = flat[:, :: flat.shape[1] // 256 | 1].float().cpu()
    return [row.numpy().tobytes() for row in values]
