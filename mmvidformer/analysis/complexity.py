"""Parameters, multiply-accumulates and memory of a training step of a config's model."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.config import clip_shape, config_scope, is_recurrent
from mmvidformer.registry import MODELS

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Complexity:
    """Size of a model.

    Args:
        parameters: Number of learned parameters, classifier included.
        macs: Multiply-accumulates of one view in matrix multiplications, convolutions and
            attention. Norms, softmax and activations are not counted.
        shape: Shape (C, T, H, W) of the view.
    """

    parameters: int
    macs: int
    shape: tuple[int, int, int, int]


def count(cfg: Config, shape: tuple[int, int, int, int] | None = None) -> Complexity:
    """Count one forward pass on the meta device, without computing it.

    Args:
        cfg: Recognition config of this package.
        shape: Shape (C, T, H, W) of the view. Default: the one that the backbone is built for.

    Raises:
        ValueError: If the model is recurrent and ``shape`` is None, since its cost depends on the
            length of the clip.
    """
    recurrent = is_recurrent(cfg)
    if recurrent and shape is None:
        raise ValueError(f"{cfg.model.type} is recurrent and has no view of one size to count")
    with config_scope(cfg), torch.device("meta"):
        shape = shape or clip_shape(cfg)
        if recurrent:
            model: nn.Module = MODELS.build(cfg.model)
            model.forward = lambda clip: model.extract_feat(clip.transpose(1, 2), stage="head")
        else:
            parts = (MODELS.build(cfg.model[part]) for part in ("backbone", "cls_head"))
            model = nn.Sequential(*parts)
        model.eval().requires_grad_(False)
        clip = torch.empty(1, *shape)
    parameters = sum(p.numel() for p in model.parameters())
    return Complexity(parameters, count_macs(model, clip), shape)


def count_macs(module: nn.Module, *inputs: Tensor) -> int:
    """Count the multiply-accumulates of one call (see ``Complexity``)."""
    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops() // 2


class StepMemory(NamedTuple):
    """Memory of a training step, in bytes.

    Attributes:
        weights: Parameters and buffers. Optimizer states are not included (once the weights for
            SGD with momentum, twice for AdamW).
        peak: Peak of forward and backward pass beyond weights and input, gradients included.
    """

    weights: int
    peak: int


class _Live(TorchDispatchMode):
    """Sum up the storages that operators allocate, until they are freed."""

    def __init__(self, known: list[Tensor]) -> None:
        super().__init__()
        self.held = self.peak = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        return tree_map_only(Tensor, self._note, func(*args, **(kwargs or {})))

    def _note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            size = storage.nbytes()
            self.held += size
            self.peak = max(self.peak, self.held)
            weakref.finalize(storage, self._free, storage._cdata, size)
        return tensor

    def _free(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.held -= size


def estimate(cfg: Config, with_cp: bool, batch: int = 1, precision: str = "fp32") -> StepMemory:
    """Estimate the memory of a training step by running its operators on fake tensors.

    The operators are those of a CPU. Their temporary memory is not included.

    Args:
        cfg: A recognition config.
        with_cp: Whether to use activation checkpointing in each block.
        batch: Number of clips.
        precision: ``'fp32'``, or ``'bf16'`` for autocast.

    Raises:
        ValueError: If the model is recurrent.
    """
    if is_recurrent(cfg):
        raise ValueError(f"{cfg.model.type} is recurrent and has no clips of one size")
    # On the meta device, as initialization needs values, which fake tensors do not have.
    with config_scope(cfg), torch.device("meta"):
        backbone = MODELS.build({**cfg.model.backbone, "with_cp": with_cp})
        model = nn.Sequential(backbone, MODELS.build(cfg.model.cls_head)).train()
        clip = torch.empty(batch, *clip_shape(cfg))
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, clip = model.to_empty(device="cpu"), torch.empty_like(clip, device="cpu")
        weights = [*model.parameters(), *model.buffers()]
        with _Live([*weights, clip]) as live:
            run_step(model, clip, precision)
    return StepMemory(sum(x.numel() * x.element_size() for x in weights), live.peak)


def run_step(model: nn.Module, clip: Tensor, precision: str) -> None:
    """Run the forward and backward pass of a step."""
    dtype = PRECISIONS[precision]
    with torch.autocast(clip.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(clip).float()
    nn.functional.cross_entropy(logits, logits.detach().softmax(1)).backward()
