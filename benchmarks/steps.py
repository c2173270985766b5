"""Compare a training step on a device with the same step on the CPU.

python -m benchmarks.steps --device cuda --modes eager compiled --out work_dirs/steps

Runs the forward and the backward pass of a small model of each family in float32, and with
autocast in bfloat16 and float16. Scores and gradients are compared with those of float32 on the
CPU. A gap is the norm of a difference relative to the norm of the expected tensor; the gap of
gradients is the largest one of all parameters. The exit status is 1 if a gap exceeds its limit or
is nan. Writes OUT.csv.
"""

import csv
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves

from benchmarks.baselines import fill_zeros, remove_noise
from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer.config import clip_shape, is_recurrent, load_config
from mmvidformer.config.building import building
from mmvidformer.engine.fsdp import shard_model
from mmvidformer.engine.loading import default_device
from mmvidformer.layers import TransformerBlock
from mmvidformer.models.fast.compiled_blocks import compile_blocks
from mmvidformer.registry import MODELS

CONFIGS = ("timesformer_motion", "vivit_fe_motion", "feature_fixation_motion",
           "horst_early_motion", "compose_causal_motion")  # fmt: skip
# Type, and the limits of the gaps of scores and gradients. On a CPU the gaps of gradients are up to
# 0.18 (bf16) and 0.08 (fp16), both in HORST.
DTYPES = {
    "fp32": (torch.float32, 1e-4, 1e-3),
    "bf16": (torch.bfloat16, 5e-2, 3e-1),
    "fp16": (torch.float16, 1e-2, 1.5e-1),
}
COLUMNS = ("config", "mode", "dtype", "score gap", "gradient gap", "limits", "s with compilation")
LOSS_SCALE = 1024  # for float16, whose small gradients would become zero


class Scores(nn.Module):
    """Return the scores of a recognizer."""

    def __init__(self, recognizer: nn.Module) -> None:
        super().__init__()
        self.recognizer = recognizer

    def forward(self, clips: Tensor) -> Tensor:
        """Map normalized clips (B, 1, 3, T, H, W), or (B, T, 3, H, W) of frames, to scores."""
        leaves = tree_leaves(self.recognizer.extract_feat(clips, stage="head"))
        scores = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        return torch.cat([score.float().flatten(1) for score in scores], dim=1)


def compiled(model: Scores, backend: str) -> Scores:
    """Compile backbone and neck, each to one graph."""
    torch.compiler.reset()
    for part in filter(None, (model.recognizer.backbone, getattr(model.recognizer, "neck", None))):
        part.compile(fullgraph=True, backend=backend)
    return model


def compiled_blocks(model: Scores, backend: str) -> nn.Module:
    """Compile each block for itself."""
    torch.compiler.reset()
    if any(isinstance(part, TransformerBlock) for part in model.modules()):  # HORST has none
        compile_blocks(model, fullgraph=True, backend=backend)
    return model


MODES: dict[str, Callable[[Scores, str], nn.Module]] = {
    "eager": lambda model, _: model,
    "compiled": compiled,
    "blocks": compiled_blocks,
    "ddp": lambda model, _: DistributedDataParallel(model),
    "fsdp": lambda model, _: shard_model(model),
}


def build(cfg: Config) -> tuple[Scores, Tensor]:
    """Build the model of a config with two blocks, without noise, and random clips."""
    torch.manual_seed(0)
    if "arch" in cfg.model.backbone:
        cfg.model.backbone.arch.depth = 2
    with building(cfg):
        model = Scores(MODELS.build(cfg.model))
    fill_zeros(remove_noise(model))
    shape = (4, 3, 64, 64) if is_recurrent(cfg) else (1, *clip_shape(cfg))
    return model.train(), torch.randn(2, *shape)


def run_step(
    model: nn.Module, clips: Tensor, dtype: torch.dtype
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the scores and the gradients by parameter of a step, on the CPU."""
    scale = LOSS_SCALE if dtype == torch.float16 else 1
    with torch.autocast(clips.device.type, dtype, enabled=dtype != torch.float32):
        scores = model(clips)
    (scale * scores.square().mean()).backward()
    gradients = {}
    for name, param in model.named_parameters():
        if param.grad is not None:
            whole = param.grad.full_tensor() if isinstance(param.grad, DTensor) else param.grad
            gradients[name.removeprefix("module.")] = whole.cpu() / scale
    return scores.detach().cpu(), gradients


def gap(computed: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """Return the norm of the difference relative to that of ``expected``, or to ``least``."""
    return float((computed - expected).norm() / expected.norm().clamp(min=least))


def gradient_gap(computed: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Return the largest gap of all gradients; tiny ones are compared with the largest."""
    if computed.keys() != expected.keys():
        return float("inf")
    least = 0.01 * max(float(value.norm()) for value in expected.values())
    return max(gap(computed[name], value, least) for name, value in expected.items())


def compare(
    cfg: Config, mode: str, dtype: str, device: str, backend: str
) -> tuple[float, float, float]:
    """Return the gaps of scores and gradients, and the seconds of the step on the device."""
    reference, clips = build(cfg)
    model, _ = build(cfg)
    expected = run_step(reference, clips, torch.float32)
    model = MODES[mode](model.to(device), backend)
    start = time.perf_counter()
    scores, gradients = run_step(model, clips.to(device), DTYPES[dtype][0])
    seconds = time.perf_counter() - start
    return gap(scores, expected[0]), gradient_gap(gradients, expected[1]), seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, print and write; return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", default=CONFIGS, help="default: one of each family")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["eager"])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--out", type=Path, required=True, help="path of the table, without suffix")
    args = parse_with_results(parser, argv, with_suffixes(".csv"))
    torch.backends.cudnn.allow_tf32 = False
    if {"ddp", "fsdp"} & set(args.modes):
        distributed.init_process_group(
            "nccl" if args.device == "cuda" else "gloo",
            store=distributed.HashStore(),
            rank=0,
            world_size=1,
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    exceeded = []
    with open(f"{args.out}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for mode in args.modes:
            for dtype in args.dtypes:
                limits = DTYPES[dtype][1:]
                for name in args.configs:
                    *gaps, seconds = compare(
                        load_config(name), mode, dtype, args.device, args.backend
                    )
                    row = [name, mode, dtype, *(f"{gap_of:.2e}" for gap_of in gaps)]
                    row += [" ".join(f"{limit:g}" for limit in limits), f"{seconds:.2f}"]
                    print(*row, sep="  ", flush=True)
                    writer.writerow(row)
                    file.flush()  # what is measured stays if this process is stopped
                    if not all(a <= b for a, b in zip(gaps, limits, strict=True)):
                        exceeded.append(f"{name} {mode} {dtype}")
    if distributed.is_initialized():
        distributed.destroy_process_group()
    if exceeded:
        print("gaps above the limits:", ", ".join(exceeded))
    return int(bool(exceeded))


if __name__ == "__main__":
    sys.exit(main())
