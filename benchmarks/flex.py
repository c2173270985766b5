"""What FlexAttention saves on a GPU: a training step of models with and without ``fast.flex``.

python -m benchmarks.flex --device cuda --out work_dirs/flex

The rows are the kinds of attention that it computes. Time is the median of the passes, memory the
peak of a step beyond weights and input, in bfloat16 under autocast. The last column is the
Euclidean norm of the difference of the outputs, over that of the plain ones. On a CPU both ways are
the plain one.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.memory import peak_memory
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.timing import time_call
from mmvidformer.engine.loading import default_device
from mmvidformer.engine.tables import print_table
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.flex import attend_in_flex

CASES: dict[str, dict[str, Any]] = {
    "capped": dict(block=[dict(pattern="joint", kernel="capped")]),
    "causal_joint": dict(block=[dict(pattern="causal_joint")], pool="none"),
    "causal_joint, 4 frames": dict(
        block=[dict(pattern=dict(type="causal_joint", past=4))], pool="none"
    ),
    "local": dict(block=[dict(pattern="local")]),
}
COLUMNS = ["attention", "way", "ms", "peak MiB", "difference"]


def build(options: dict, width: int, frames: int, size: int, device: str) -> VideoTransformer:
    """Build a model of two blocks with heads of 64 channels, the same each time."""
    torch.manual_seed(0)
    arch = dict(embed_dims=width, depth=2, num_heads=max(width // 64, 1))
    stem = dict(tubelet=(2, 16, 16))
    model = VideoTransformer(arch, img_size=size, clip_len=frames, stem=stem, **options)
    return model.to(device).train()


def make_step(model: VideoTransformer) -> Callable[[Tensor], Tensor]:
    """Return a forward and a backward pass, which returns the output."""

    def step(clip: Tensor) -> Tensor:
        model.zero_grad()
        with torch.autocast(clip.device.type, torch.bfloat16):
            out = model(clip)
        out.float().square().mean().backward()
        return out.detach().float()

    return step


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="path of the table, without suffix")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=10)
    args = parse_with_results(parser, argv, with_suffixes(".csv"))
    clip = torch.randn(args.batch, 3, args.frames, args.size, args.size, device=args.device)
    rows = []
    for name, options in CASES.items():
        outs: list[Tensor] = []
        for way in ("plain", "flex"):
            model = build(options, args.width, args.frames, args.size, args.device)
            if way == "flex":
                attend_in_flex(model)
            step = make_step(model)
            outs.append(step(clip))
            seconds = median(
                time_call(partial(step, clip), args.device)[0] for _ in range(args.repeats)
            )
            memory = peak_memory(step, clip)
            difference = (outs[-1] - outs[0]).norm() / outs[0].norm()
            measured = (f"{seconds * 1000:.2f}", f"{memory / 2**20:.1f}", f"{difference:.1e}")
            rows.append([name, way, *measured])
    print_table(COLUMNS, rows, f"{args.device}, bfloat16", f"{args.out}.csv")


if __name__ == "__main__":
    main()
