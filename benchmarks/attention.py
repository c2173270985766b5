"""Measure what linear attention and its rivals cost: speed, peak memory, multiply-accumulates.

python -m benchmarks.attention --out work_dirs/benchmark

prints and writes a table (benchmark.csv) and, for each kernel, how its costs grow with the tokens
(benchmark_growth.csv: slopes of straight lines on logarithmic axes, 1 is linear, 2 quadratic), and
draws both (benchmark.png). By default it measures the model of the paper on feature fixation on all
clips of its Table 8. A CPU needs smaller settings:

python -m benchmarks.attention --attention-only --attention joint --frames 4 8 16 32 \
    --sizes 224 --kernels fixation linear softmax --repeats 3 --out work_dirs/benchmark_cpu

A clip for which memory does not suffice is a row without figures.
"""

import csv
import os
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read once, when torch is imported

import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from benchmarks.attention_cost import KINDS, Cost, cases, growth, measure
from benchmarks.plots import draw_growth
from mmvidformer.models.feature_fixation import SCHEMES

DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")}
COLUMNS = ["attention", "kernel", "frames", "size", "tokens", "G MACs", "ms", "processor ms",
           "videos/s", "peak MiB"]  # fmt: skip
GROWTH = ["attention", "kernel", "tokens", "time", "processor time", "peak memory", "MACs"]
MISSING = "out of memory"


def read_arch(text: str) -> str | dict:
    """Read 'b', or width, depth and heads, as 96,4,4."""
    if text == "b":
        return text
    try:
        dim, depth, heads = map(int, text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"must be b or WIDTH,DEPTH,HEADS, got {text!r}") from None
    return dict(embed_dims=dim, depth=depth, num_heads=heads)


def row_of(cost: Cost) -> list[str]:
    """Columns of a cost."""
    case = cost.case
    row = [case.attention, case.kind, case.frames, case.size, cost.tokens]
    row = [*map(str, row), f"{cost.macs / 1e9:.3f}"]
    if cost.seconds is None:
        return [*row, *[MISSING] * 4]
    times = [f"{seconds * 1000:.2f}" for seconds in (cost.seconds, cost.busy)]
    return [*row, *times, f"{cost.videos_per_second:.3f}", f"{cost.memory / 2**20:.2f}"]


def panels_of(costs: Sequence[Cost]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Points of the plot: time, processor time and memory of each scheme."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for cost in costs:
        if cost.seconds is None:
            continue
        values = (cost.seconds * 1000, cost.busy * 1000, cost.memory / 2**20)
        for unit, value in zip(("ms", "processor ms", "peak MiB"), values, strict=True):
            panel = panels.setdefault(f"{cost.case.attention}: {unit}", {})
            panel.setdefault(cost.case.kind, []).append((cost.tokens, value))
    return panels


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    """Build a table for the terminal."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    return table


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="name of the files, no ending")
    parser.add_argument("--kernels", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--attention", nargs="+", choices=SCHEMES, default=["time_space", "joint"])
    parser.add_argument("--frames", nargs="+", type=int, default=[16, 32, 64, 96])
    parser.add_argument("--sizes", nargs="+", type=int, default=[224, 336, 448])
    parser.add_argument("--arch", type=read_arch, default="b", help="b or WIDTH,DEPTH,HEADS")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="others: autocast")
    parser.add_argument("--batch", type=int, default=1, help="clips at once")
    parser.add_argument("--repeats", type=int, default=10, help="timed passes; the median counts")
    parser.add_argument("--warmup", type=int, default=3, help="passes before them")
    parser.add_argument(
        "--attention-only", action="store_true", help="the attentions of one block, no model"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--memory-limit", type=float, metavar="GIB",
        help="on a CPU: what a clip may take; default: what is free",
    )  # fmt: skip
    args = parser.parse_args(argv)
    limit = None if args.memory_limit is None else int(args.memory_limit * 2**30)
    planned = cases(
        args.kernels, args.attention, args.frames, args.sizes,
        arch=args.arch, batch=args.batch, attention_only=args.attention_only,
    )  # fmt: skip
    settings = (args.device, DTYPES[args.dtype], args.repeats, args.warmup, limit)
    costs = [measure(case, *settings) for case in tqdm(planned, unit="case", disable=None)]

    rows = [row_of(cost) for cost in costs]
    console = Console(width=140)
    console.print(table_of(COLUMNS, rows, f"{args.device}, {args.dtype}, batch {args.batch}"))
    slopes = [
        [g.attention, g.kind, f"{g.factor:.1f} x"]
        + [f"{slope:.2f}" for slope in (g.time, g.busy, g.memory, g.macs)]
        for g in growth(costs)
    ]
    console.print(table_of(GROWTH, slopes, "growth with the tokens (1: linear, 2: quadratic)"))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for ending, content in (("", [COLUMNS, *rows]), ("_growth", [GROWTH, *slopes])):
        with open(f"{args.out}{ending}.csv", "w", newline="") as file:
            csv.writer(file).writerows(content)
    draw_growth(panels_of(costs)).savefig(f"{args.out}.png")
    print(f"{args.out}.csv, {args.out}_growth.csv, {args.out}.png")


if __name__ == "__main__":
    main()
