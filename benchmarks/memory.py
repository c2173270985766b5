"""Memory of a training step: python -m benchmarks.memory CONFIG ...

Estimates the memory with each activation checkpointing (model.backbone.with_cp) by running
the operators of a step on fake tensors. The peak is beyond weights and input and includes the
gradients, but not the optimizer states (once the weights for SGD with momentum, twice for AdamW).
"""

import itertools
import json
import sys
import tempfile
import weakref
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
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
from tqdm import tqdm

from mmvidformer.config import clip_shape, is_recurrent, load_config
from mmvidformer.config.building import building
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.engine.tables import print_table
from mmvidformer.errors import UserError
from mmvidformer.registry import MODELS

COLUMNS = ("config", "view", "batch", "type", "with_cp", "weights GB", "estimated peak GB")
WITH_CP = {"off": False, "activations": "activations", "on": True}
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", help="config files, or names of shipped configs")
    parser.add_argument("--batch", type=int, default=1, help="clips per step (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--cp", choices=WITH_CP, nargs="+", default=[*WITH_CP], help="default: all")
    parser.add_argument("--csv", type=Path, help="csv file to write the table to")
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    if args.csv:
        check_outputs(vars(args), [("--csv", args.csv)], "csv")
    cases = list(itertools.product(args.configs, args.cp))
    rows = []
    for name, cp in tqdm(cases, disable=None, unit="step"):
        cfg = load_config(name)
        found = estimate(cfg, WITH_CP[cp], args.batch, args.precision)
        row = [
            name.removesuffix(".py"),
            "x".join(map(str, clip_shape(cfg)[1:])),
            args.batch,
            args.precision,
        ]
        row += [cp, f"{found.weights / 1e9:.3f}", f"{found.peak / 1e9:.3f}"]
        rows.append([*map(str, row)])
    print_table(COLUMNS, rows, file=args.csv)


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


def estimate(
    cfg: Config, with_cp: bool | str, batch: int = 1, precision: str = "fp32"
) -> StepMemory:
    """Estimate the memory of a training step by running its operators on fake tensors.

    The operators are those of a CPU. Their temporary memory is not included.

    Args:
        cfg: A recognition config.
        with_cp: What is recomputed in the backward pass (``VideoTransformer``).
        batch: Number of clips.
        precision: ``'fp32'``, or ``'bf16'`` for autocast.

    Raises:
        UserError: If the model is recurrent.
    """
    if is_recurrent(cfg):
        raise UserError(f"{cfg.model.type} is recurrent and has no clips of one size")
    # On the meta device, as initialization needs values, which fake tensors do not have.
    with building(cfg), torch.device("meta"):
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


if __name__ == "__main__":
    sys.exit(run_tool(main))
