"""Memory of a training step, estimated without computing it, and measured."""

import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from mmvidformer.analysis.memory import peak_memory
from mmvidformer.config import clip_shape, is_recurrent
from mmvidformer.registry import MODELS

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class StepMemory:
    """Memory of a training step, in bytes.

    Args:
        weights: The model's own, buffers included. Gradients take as much again, which is part of
            ``peak``; what an optimiser keeps (once the weights for SGD with momentum, twice for
            AdamW) is part of neither.
        peak: Most that forward and backward pass hold at a time beyond weights and input.
    """

    weights: int
    peak: int


class _Live(TorchDispatchMode):
    """Adds up the storages that operators make, until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        return tree_map_only(Tensor, self._note, func(*args, **(kwargs or {})))

    def know(self, tensor: Tensor) -> None:
        """Leave out a tensor that was there before."""
        self._known.add(tensor.untyped_storage()._cdata)

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


def estimate(
    cfg: Config,
    with_cp: bool,
    batch: int = 1,
    precision: str = "fp32",
    depth: int | None = None,
) -> StepMemory:
    """Estimate a step: all operators are run on tensors without numbers, and what lives is counted.

    The operators are those of a CPU. Working memory inside operators is not seen.

    Args:
        cfg: A config of clips.
        with_cp: Whether each block is computed again in the backward pass.
        batch: Clips.
        precision: ``'fp32'``, or ``'bf16'`` for autocast.
        depth: Only so many blocks of the (first) encoder; default: all.

    Raises:
        ValueError: If the model is recurrent.
    """
    with torch.device("meta"):  # initialisation asks for numbers, which fake tensors have not
        model, clip = _build(cfg, with_cp, batch, depth)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, clip = model.to_empty(device="cpu"), torch.empty_like(clip, device="cpu")
        live = _Live()
        for tensor in [*model.parameters(), *model.buffers(), clip]:
            live.know(tensor)
        with live:
            _step(model, precision)(clip)
        return StepMemory(_weights(model), live.peak)


def measure(
    cfg: Config,
    with_cp: bool,
    batch: int = 1,
    precision: str = "fp32",
    depth: int | None = None,
    device: str = "cpu",
) -> StepMemory:
    """Run a step on random numbers and measure it; arguments and errors as of ``estimate``."""
    with torch.device(device):
        model, clip = _build(cfg, with_cp, batch, depth)
    return StepMemory(_weights(model), peak_memory(_step(model, precision), clip))


def measure_apart(config: str, **arguments: object) -> StepMemory:
    """Measure in a process of its own; a step that the system ends leaves this one alive.

    Args:
        config: A config file.
        **arguments: Those of ``measure``.

    Raises:
        RuntimeError: If the process fails, as where memory does not suffice.
    """
    code = (
        "import json, sys; from mmengine.config import Config; "
        "from dataclasses import asdict; from mmvidformer.analysis import training_memory as t; "
        "print(json.dumps(asdict(t.measure(Config.fromfile(sys.argv[1]), "
        "**json.loads(sys.argv[2])))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, config, json.dumps(arguments)], capture_output=True, text=True
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        raise RuntimeError(f"a step of {config} with {arguments} failed: {last}")
    return StepMemory(**json.loads(done.stdout.splitlines()[-1]))


def _build(cfg: Config, with_cp: bool, batch: int, depth: int | None) -> tuple[nn.Module, Tensor]:
    if is_recurrent(cfg):
        raise ValueError("a recurrent model has no clip of one size to train on")
    with DefaultScope.overwrite_default_scope("mmaction"):
        backbone = MODELS.build({**cfg.model.backbone, "with_cp": with_cp})
        model = nn.Sequential(backbone, MODELS.build(cfg.model.cls_head)).train()
    if depth is not None:
        del backbone.encoder.blocks[depth:]
    return model, torch.randn(batch, *clip_shape(cfg))


def _step(model: nn.Module, precision: str) -> Callable[[Tensor], None]:
    dtype = PRECISIONS[precision]

    def step(clip: Tensor) -> None:
        with torch.autocast(clip.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(clip).float()
        nn.functional.cross_entropy(logits, logits.detach().softmax(1)).backward()

    return step


def _weights(model: nn.Module) -> int:
    return sum(x.numel() * x.element_size() for x in [*model.parameters(), *model.buffers()])
