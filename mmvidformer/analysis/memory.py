"""Peak memory of a call, and memory of a training step, estimated or measured."""

import json
import tempfile
import weakref
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from mmvidformer.config import clip_shape, config_scope, is_recurrent
from mmvidformer.registry import MODELS

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def peak_memory(call: Callable[[Tensor], object], inputs: Tensor) -> int:
    """Measure the peak memory of a call, in bytes beyond what was allocated before.

    On a CPU the profiler records every allocation of PyTorch's allocator, including temporary
    memory of operators, but not that of libraries with their own allocator (oneDNN). The resident
    size of the process would show what the C library keeps instead of what the call needs.

    Args:
        call: Function to call once.
        inputs: Its argument, on the device to measure.
    """
    if inputs.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call(inputs)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call(inputs)
    del result
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    changes.sort(key=lambda event: event["ts"])
    return max(accumulate((event["args"]["Bytes"] for event in changes), initial=0))


class Step(NamedTuple):
    """A training step.

    Attributes:
        with_cp: Whether to use activation checkpointing in each block.
        batch: Number of clips.
        precision: ``'fp32'``, or ``'bf16'`` for autocast.
        depth: Number of blocks of the (first) encoder to keep. Default: all.
    """

    with_cp: bool
    batch: int = 1
    precision: str = "fp32"
    depth: int | None = None


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


def estimate(cfg: Config, step: Step) -> StepMemory:
    """Estimate the memory of a step by running its operators on fake tensors.

    The operators are those of a CPU. Their temporary memory is not included.

    Raises:
        ValueError: If the model is recurrent.
    """
    with torch.device("meta"):  # initialization needs values, which fake tensors do not have
        model, clip = _build(cfg, step)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, clip = model.to_empty(device="cpu"), torch.empty_like(clip, device="cpu")
        with _Live([*model.parameters(), *model.buffers(), clip]) as live:
            _run(model, step, clip)
        return StepMemory(_weights(model), live.peak)


def measure(cfg: Config, step: Step, device: str = "cpu") -> StepMemory:
    """Measure the memory of a step on random data.

    Raises:
        ValueError: If the model is recurrent.
    """
    with torch.device(device):
        model, clip = _build(cfg, step)
    return StepMemory(_weights(model), peak_memory(lambda x: _run(model, step, x), clip))


def _build(cfg: Config, step: Step) -> tuple[nn.Module, Tensor]:
    if is_recurrent(cfg):
        raise ValueError(f"{cfg.model.neck.type} is recurrent and has no clips of one size")
    with config_scope(cfg):
        backbone = MODELS.build({**cfg.model.backbone, "with_cp": step.with_cp})
        model = nn.Sequential(backbone, MODELS.build(cfg.model.cls_head)).train()
    if step.depth is not None:
        del backbone.encoder.blocks[step.depth :]
    return model, torch.randn(step.batch, *clip_shape(cfg))


def _run(model: nn.Module, step: Step, clip: Tensor) -> None:
    dtype = PRECISIONS[step.precision]
    with torch.autocast(clip.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(clip).float()
    nn.functional.cross_entropy(logits, logits.detach().softmax(1)).backward()


def _weights(model: nn.Module) -> int:
    return sum(x.numel() * x.element_size() for x in [*model.parameters(), *model.buffers()])
