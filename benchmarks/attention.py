"""Measure speed, peak memory and multiply-accumulates of linear attention and its baselines.

python -m benchmarks.attention --out work_dirs/benchmark

Writes a table (benchmark.csv), the growth of each kernel's costs with the number of tokens
(benchmark_growth.csv: slopes on logarithmic axes, 1 is linear, 2 quadratic), and a plot of both
(benchmark.png). By default it measures the model of the feature fixation paper on all clips of its
Table 8. A CPU needs smaller settings:

python -m benchmarks.attention --attention-only --attention joint --frames 4 8 16 32 \
    --sizes 224 --kernels fixation linear softmax --repeats 3 --out work_dirs/benchmark_cpu

A row without numbers is a clip that does not fit into memory.
"""

import os
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read once, when torch is imported

import torch
from tqdm import tqdm

from benchmarks.attention_cost import KERNELS, Cost, cases, growth, measure
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.plots import draw_growth
from mmvidformer.engine.loading import default_device
from mmvidformer.engine.tables import print_table
from mmvidformer.models.feature_fixation import ARCH, SCHEMES

DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")}
COLUMNS = ["attention", "kernel", "frames", "size", "tokens", "G MACs", "ms", "CPU ms",
           "videos/s", "peak MiB"]  # fmt: skip
GROWTH = ["attention", "kernel", "tokens", "time", "CPU time", "peak memory", "MACs"]
MISSING = "out of memory"


def read_arch(text: str) -> dict:
    """Parse width, depth and heads such as ``96,4,4``."""
    try:
        dim, depth, heads = map(int, text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"must be WIDTH,DEPTH,HEADS, got {text!r}") from None
    return dict(embed_dims=dim, depth=depth, num_heads=heads)


def row_of(cost: Cost) -> list[str]:
    """Return the columns of a cost."""
    case = cost.case
    row = [case.attention, case.kernel, case.frames, case.size, cost.tokens]
    row = [*map(str, row), f"{cost.macs / 1e9:.3f}"]
    if cost.seconds is None:
        return [*row, *[MISSING] * 4]
    times = [f"{seconds * 1000:.2f}" for seconds in (cost.seconds, cost.cpu_seconds)]
    return [*row, *times, f"{cost.videos_per_second:.3f}", f"{cost.memory / 2**20:.2f}"]


def panels_of(costs: Sequence[Cost]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return the points of the plot: time, CPU time and memory of each scheme."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for cost in costs:
        if cost.seconds is None:
            continue
        values = (cost.seconds * 1000, cost.cpu_seconds * 1000, cost.memory / 2**20)
        for unit, value in zip(("ms", "CPU ms", "peak MiB"), values, strict=True):
            panel = panels.setdefault(f"{cost.case.attention}: {unit}", {})
            panel.setdefault(cost.case.kernel, []).append((cost.tokens, value))
    return panels


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="path of the files, without suffix")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--attention", nargs="+", choices=SCHEMES, default=["time_space", "joint"])
    parser.add_argument("--frames", nargs="+", type=int, default=[16, 32, 64, 96])
    parser.add_argument("--sizes", nargs="+", type=int, default=[224, 336, 448])
    parser.add_argument("--arch", type=read_arch, default=ARCH, help="WIDTH,DEPTH,HEADS")
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="data type; all but float32 use autocast"
    )
    parser.add_argument("--batch", type=int, default=1, help="clips per step")
    parser.add_argument("--repeats", type=int, default=10, help="timed passes (default 10)")
    parser.add_argument("--warmup", type=int, default=3, help="passes before them (default 3)")
    parser.add_argument(
        "--attention-only", action="store_true", help="only the attention layers of one block"
    )
    parser.add_argument("--device", default=default_device())
    parser.add_argument(
        "--memory-limit", type=float, metavar="GIB",
        help="memory that a clip may take on a CPU; default: all free memory",
    )  # fmt: skip
    args = parse_with_results(parser, argv, with_suffixes(".csv", "_growth.csv", ".png"))
    limit = None if args.memory_limit is None else int(args.memory_limit * 2**30)
    planned = cases(
        args.kernels, args.attention, args.frames, args.sizes,
        arch=args.arch, batch=args.batch, attention_only=args.attention_only,
    )  # fmt: skip
    settings = (args.device, DTYPES[args.dtype], args.repeats, args.warmup, limit)
    costs = [measure(case, *settings) for case in tqdm(planned, unit="case", disable=None)]

    rows = [row_of(cost) for cost in costs]
    title = f"{args.device}, {args.dtype}, batch {args.batch}"
    print_table(COLUMNS, rows, title, f"{args.out}.csv")
    slopes = []
    for trend in growth(costs):
        exponents = (trend.time, trend.cpu_time, trend.memory, trend.macs)
        row = [trend.attention, trend.kernel, f"{trend.factor:.1f} x"]
        slopes.append(row + [f"{exponent:.2f}" for exponent in exponents])
    title = "growth with the number of tokens (1: linear, 2: quadratic)"
    print_table(GROWTH, slopes, title, f"{args.out}_growth.csv")
    draw_growth(panels_of(costs)).savefig(f"{args.out}.png")
    print(f"{args.out}.csv, {args.out}_growth.csv, {args.out}.png")


if __name__ == "__main__":
    main()
