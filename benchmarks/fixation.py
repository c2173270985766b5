"""Measure blocks of feature fixation against a straightforward form with the same weights.

python -m benchmarks.fixation [--optimize --training --dtype bf16]

The straightforward form regroups the tokens before each projection, shifts copies of keys and
values, concatenates the input of a gate once for queries and once for keys, and keeps all that a
backward pass reads, as the official code does. Both take turns; "times faster" is the median over
the rounds of the CPU time (on a GPU of the device time) relative to the straightforward form. The
exit status is 1 if the tokens differ. --out PATH writes PATH.csv. On a CPU let glibc keep freed
memory (docs/running.md), as in the published tables.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch
from einops import rearrange
from torch import Tensor, nn

from benchmarks.memory import peak_memory
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.timing import time_call
from mmvidformer.layers import AttentionSubLayer, Context, Grid, TransformerBlock
from mmvidformer.layers.shift import Shift
from mmvidformer.models import FeatureFixationTransformer
from mmvidformer.models.fast.inference import optimize_for_inference

TOLERANCE = {"fp32": 1e-5, "bf16": 5e-2}
COLUMNS = ("form", "ms", "times faster", "peak MiB", "largest difference")
# Tokens of a group in each sub-layer, from a grid.
GROUPS = {"time": "b t h w d -> (b h w) t d", "space": "b t h w d -> (b t) (h w) d"}


def straightforward(block: TransformerBlock, grid: Tensor) -> Tensor:
    """Return the output of a block for tokens (B, T, H, W, D)."""
    for name, sublayer in block.sublayers.items():
        grid = grid + attend(sublayer, grid, GROUPS[name])
    frames = block.norm(grid)
    hidden = block.mlp.fc1(frames).flatten(0, 1).permute(0, 3, 1, 2).contiguous()
    hidden = block.mlp.depthwise.conv(hidden).permute(0, 2, 3, 1).unflatten(0, grid.shape[:2])
    return grid + block.mlp.fc2(nn.functional.gelu(hidden))


def computed(block: TransformerBlock, grid: Tensor) -> Tensor:
    """Return the output of a block for tokens (B, T, H, W, D), as the package computes it."""
    order = Grid(*grid.shape[1:4])
    return block(grid.flatten(1, 3), Context(order)).unflatten(1, order.size)


def attend(sublayer: AttentionSubLayer, grid: Tensor, groups: str) -> Tensor:
    """Return the update of linear attention in the groups of a grid (B, T, H, W, D)."""
    attn, sizes = sublayer.attn, dict(zip("bthw", grid.shape, strict=False))
    back = " -> ".join(reversed(groups.split(" -> ")))
    x = rearrange(grid, groups)
    qkv = rearrange(attn.qkv(sublayer.norm(x)), "g s (k d) -> k g s d", k=3)
    tokens = [rearrange(part, back, **sizes) for part in qkv]
    move = attn.prepare["shift0"]
    q, k, v = (
        rearrange(part, groups).unflatten(-1, (attn.num_heads, -1))
        for part in (tokens[0], shift(move, tokens[1]), shift(move, tokens[2]))
    )  # (G, S, n, d)
    scale, gate = attn.kernel.feature_map.offset, attn.prepare["fixation"].gates["qk"]
    q, k = q.relu() + scale, k.relu() + scale
    both = torch.cat([q, k, v], dim=-1)
    q, k = gate(both).sigmoid() * q, gate(both).sigmoid() * k
    sums = k.permute(0, 2, 3, 1) @ v.transpose(1, 2)  # (G, n, d, d)
    weight = 1 / ((q * k.sum(dim=1, keepdim=True)).sum(dim=-1) + attn.kernel.eps)
    out = (q.transpose(1, 2) @ sums).transpose(1, 2) * weight[..., None]
    return rearrange(attn.proj(out.flatten(-2)), back, **sizes)


def shift(settings: Shift, x: Tensor) -> Tensor:
    """Shift the channels of tokens (B, T, H, W, D), with channels before places as in a CNN."""
    x = x.permute(0, 4, 1, 2, 3).contiguous()
    out, fold = torch.zeros_like(x), int(x.shape[1] * settings.share)
    for i, offset in enumerate(settings.offsets):
        part = slice(i * fold, (i + 1) * fold)
        if i >= settings.zeros:
            out[:, part] = x[:, part]
        target, source = [slice(None), part], [slice(None), part]
        for size, step in zip(x.shape[2:], offset, strict=True):
            target.append(slice(max(-step, 0), size - max(step, 0)))
            source.append(slice(max(step, 0), size + min(step, 0)))
        out[tuple(target)] = x[tuple(source)]
    shifted = fold * len(settings.offsets)
    out[:, shifted:] = x[:, shifted:]
    return out.permute(0, 2, 3, 4, 1).contiguous()


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--grid", type=int, nargs=3, default=[16, 17, 17], help="T, H and W")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--depth", type=int, default=2, help="number of blocks")
    parser.add_argument("--dtype", choices=TOLERANCE, default="fp32", help="bf16: autocast")
    parser.add_argument("--optimize", action="store_true", help="after optimize_for_inference")
    parser.add_argument("--training", action="store_true", help="with the backward pass")
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="path of the table, without suffix")
    args = parse_with_results(parser, argv, with_suffixes(".csv"))
    if args.optimize and args.training:
        parser.error("an optimized model cannot be trained: --optimize or --training")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    args = parse_args(argv)
    torch.manual_seed(0)
    arch = dict(embed_dims=args.dim, depth=args.depth, num_heads=args.heads)
    model = FeatureFixationTransformer(arch).to(args.device)
    fast = optimize_for_inference(model) if args.optimize else model
    blocks = {"straightforward": model, "mmvidformer": fast}
    grid = torch.randn(1, *args.grid, args.dim, device=args.device)

    def run(name: str) -> Tensor:
        x, mixed = grid, args.dtype == "bf16"
        for block in blocks[name].encoders[0].blocks:
            with torch.autocast(args.device, torch.bfloat16, enabled=mixed):
                x = straightforward(block, x) if name == "straightforward" else computed(block, x)
        if args.training:
            model.zero_grad()
            x.float().square().mean().backward()
        return x.detach().float()

    with torch.set_grad_enabled(args.training):
        outputs = {name: run(name) for name in blocks}
        times: dict[str, list[float]] = {name: [] for name in blocks}
        for _ in range(args.repeats):
            for name in blocks:
                times[name].append(time_call(lambda name=name: run(name), args.device)[1])
        peaks = {name: peak_memory(lambda _, name=name: run(name), grid) for name in blocks}
    slow = times["straightforward"]
    rows: list[Sequence[str]] = [COLUMNS]
    differences = [
        (outputs[name] - outputs["straightforward"]).abs().max().item() for name in blocks
    ]
    for (name, seconds), difference in zip(times.items(), differences, strict=True):
        ratio = median(first / second for first, second in zip(slow, seconds, strict=True))
        numbers = f"{1000 * median(seconds):.1f}", f"{ratio:.2f}", f"{peaks[name] / 2**20:.1f}"
        rows.append((name, *numbers, f"{difference:.1e}"))
    for row in rows:
        print(("{:16}" + "{:>20}" * (len(COLUMNS) - 1)).format(*row))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{args.out}.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)
    return int(not max(differences) <= TOLERANCE[args.dtype])


if __name__ == "__main__":
    sys.exit(main())
