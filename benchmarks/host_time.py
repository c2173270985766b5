"""Host time of a block: what Python and the dispatch of operators cost, at a width that costs none.

python -m benchmarks.host_time [--rounds 60] [--device cuda] [--out work_dirs/host_time]

It bounds the speed of a GPU at small batches, and that of small models on a CPU. A row is a block
of width 32 on 64 tokens in evaluation, with and without ``regroup_once``, and timm's block as the
measure. The ways take turns in windows of 12 calls on one thread, and the least of all calls
counts: it is a call that nothing interrupted, also on a busy machine. On a GPU it is the time until
all kernels are launched.
"""

import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.passes import Operators
from mmvidformer.engine.tables import print_table
from mmvidformer.layers import Context, Grid
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer
from mmvidformer.models.fast.regrouped_once import regroup_once

COLUMNS = ("block", "us", "of timm", "Python calls", "operators")
WINDOW = 12  # calls, so that a window is shorter than a time slice
SIZE = dict(
    arch=dict(embed_dims=32, depth=1, num_heads=2),
    img_size=32,
    clip_len=4,
    stem=dict(tubelet=(1, 8, 8)),
    drop_path_rate=0.0,
)
MODELS: dict[str, Callable[[], Any]] = {
    "joint": partial(VideoTransformer, block=[dict(pattern="joint")], cls="mean", **SIZE),
    "divided": partial(TimeSformer, **SIZE),
    "feature fixation": partial(FeatureFixationTransformer, **SIZE),
}


def build_runs(device: str = "cpu") -> dict[str, Callable[[], Any]]:
    """Return a call of each block."""
    runs = {"timm": build_timm(device)}
    for name, build in MODELS.items():
        for label, change in {name: None, f"{name}, regrouped once": regroup_once}.items():
            model = build().to(device).eval()
            if change is not None:
                change(model)
            (encoder,) = model.encoders
            context = Context(Grid(*model.grid, prefix=int(encoder.cls_token is not None)))
            tokens = torch.randn(1, context.grid.num_tokens, 32)
            runs[label] = partial(encoder.blocks[0], tokens.to(device), context)
    return runs


def build_timm(device: str) -> Callable[[], Any]:
    """Return a call of timm's block, of as many tokens."""
    from timm.models.vision_transformer import Block

    block = Block(32, 2, qkv_bias=True).to(device).eval()
    return partial(block, torch.randn(1, 65, 32, device=device))


def count_calls(run: Callable[[], Any]) -> int:
    """Count the Python functions that are called."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def measure(runs: dict[str, Callable[[], Any]], rounds: int, device: str) -> dict[str, float]:
    """Return the least time of a call of each, in us."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None  # or its queue fills
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(WINDOW):
                wait()
                start = time.perf_counter()
                run()
                least[name] = min(least[name], (time.perf_counter() - start) * 1e6)
    return least


@torch.no_grad()
def main(argv: list[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="path of the table, without suffix")
    args = parse_with_results(parser, argv, with_suffixes(".csv"))
    torch.set_num_threads(1)
    runs = build_runs(args.device)
    least = measure(runs, args.rounds, args.device)
    rows = []
    for name, run in runs.items():
        with Operators(views=True) as operators:
            run()
        times = f"{least[name]:.0f}", f"{least[name] / least['timm']:.2f}"
        counts = str(count_calls(run)), str(operators.count)
        rows.append((name, *times, *counts))
    print_table(COLUMNS, rows, args.device, args.out and f"{args.out}.csv")


if __name__ == "__main__":
    main()
