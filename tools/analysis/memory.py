"""Memory of a training step: python tools/analysis/memory.py CONFIG ...

Estimates the memory with and without activation checkpointing (model.backbone.with_cp) by running
the operators of a step on fake tensors. The peak is beyond weights and input and includes the
gradients, but not the optimizer states (once the weights for SGD with momentum, twice for AdamW).
"""

import argparse
import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from tqdm import tqdm

from mmvidformer.analysis.tables import print_table
from mmvidformer.config import clip_shape, config_scope, is_recurrent, load_config
from mmvidformer.engine.launch import run_tool
from mmvidformer.registry import MODELS

COLUMNS = ("config", "view", "batch", "type", "with_cp", "weights GB", "estimated peak GB")
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


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
        raise ValueError(f"{cfg.model.neck.type} is recurrent and has no clips of one size")
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


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", help="config files, or names of shipped configs")
    parser.add_argument("--batch", type=int, default=1, help="clips per step (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument(
        "--cp", choices=["on", "off"], nargs="+", default=["off", "on"], help="default: both"
    )
    parser.add_argument("--csv", type=Path, help="csv file to write the table to")
    args = parser.parse_args(argv)
    cases = list(itertools.product(args.configs, args.cp))
    rows = []
    for name, cp in tqdm(cases, disable=None, unit="step"):
        cfg = load_config(name)
        found = estimate(cfg, cp == "on", args.batch, args.precision)
        row = [Path(name).stem, "x".join(map(str, clip_shape(cfg)[1:])), args.batch, args.precision]
        row += [cp == "on", f"{found.weights / 1e9:.3f}", f"{found.peak / 1e9:.3f}"]
        rows.append([*map(str, row)])
    print_table(COLUMNS, rows, file=args.csv)


if __name__ == "__main__":
    sys.exit(run_tool(main))
