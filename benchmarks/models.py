"""Measure configs beside other projects' models of the same weights: speed, memory, floors.

python -m benchmarks.models timesformer_b_k400 vivit_st_k400 --optimize --out work_dirs/speed

Before anything is timed all models that compute the same function get the same weights and must
give the same logits (1e-4). Then they take turns, in inference and in training steps; the median of
the rounds counts. "x ours" is the median of a contestant's time over that of mmvidformer's model in
the same round, optimised where that takes part: above 1 is slower. Peak memory is that of a pass
beyond weights and input, each contestant in a process of its own. Floors: the time of a large
matrix product with as many multiply-accumulates, and of a copy of as many bytes as weights and
input have; a training step counts three times.

Writes OUT.csv, OUT.json (machine, versions, command) and OUT.png. With --page PAGE.md the blocks of
pages are written from such files, which their marks name; without configs that is all that is done.
"""

import datetime
import os
import platform
import shlex
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read once, when torch is imported

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.compare import PASSES, Result, Settings, compete
from benchmarks.page import COLUMNS, fill_page, row_of, write_results
from benchmarks.plots import draw_bars
from mmvidformer.config import load_config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
VERSIONS = ("torch", "mmaction2", "mmengine", "transformers", "timm")


def version_of(name: str) -> str:
    """Version of a package, or 'not installed'."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} not installed"


def machine(device: str, threads: int) -> str:
    """Name what computes."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    best = torch.backends.cpu.get_cpu_capability()
    return f"{name}, {os.cpu_count()} cores, {threads} threads, {best}"


def panels_of(results: dict[str, list[Result]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Bars of the plot: milliseconds and floor of each contestant."""
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for config, rows in results.items():
        for row in rows:
            floor = max(row.product_floor, row.copy_floor)
            bar = (row.seconds * 1000, floor * 1000)
            panels.setdefault(f"{config}, {row.kind}", {})[row.contestant] = bar
    return panels


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", help="config files, or names of shipped configs")
    parser.add_argument("--out", type=Path, help="name of the files, no ending")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="others: autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile all of them")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="on a CPU")
    parser.add_argument("--batch", type=int, default=1, help="clips at once")
    parser.add_argument(
        "--optimize", action="store_true", help="also the model after optimize_for_inference"
    )
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES))
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds; the median counts")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before them")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument(
        "--page", type=Path, nargs="+", default=[], help="pages whose blocks are written from files"
    )
    args = parser.parse_args(argv)
    if args.configs and not args.out:
        parser.error("--out must name the files that results go to")
    if not args.configs and not args.page:
        parser.error("give configs to measure, or --page to write")
    if args.configs:
        measure(args, sys.argv[1:] if argv is None else argv)
    for page in args.page:
        page.write_text(fill_page(page.read_text(), page.parent))


def measure(args: object, command: Sequence[str]) -> None:
    """Measure the configs, print and write the results."""
    settings = Settings(
        device=args.device,
        dtype=DTYPES[args.dtype],
        compiled=args.compile,
        threads=args.threads,
        batch=args.batch,
        optimise=args.optimize,
        repeats=args.repeats,
        warmup=args.warmup,
        memory=not args.no_memory,
    )
    results = {
        Path(name).stem: compete(load_config(name).model, settings, args.passes)
        for name in track(args.configs, "measuring")
    }
    rows = [row_of(config, result) for config, found in results.items() for result in found]
    table = Table(*COLUMNS, title=f"{args.device}, {args.dtype}, batch {args.batch}")
    for row in rows:
        table.add_row(*row)
    Console(width=180).print(table)
    compiled = "compiled" if args.compile else "eager"
    about = {
        "machine": machine(args.device, args.threads),
        "settings": f"{args.dtype}, batch {args.batch}, {compiled}, "
        f"median of {args.repeats} rounds after {args.warmup}",
        "versions": ", ".join([f"Python {platform.python_version()}", *map(version_of, VERSIONS)]),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.models", *command]),
    }
    write_results(args.out, rows, about)
    draw_bars(panels_of(results), "ms").savefig(f"{args.out}.png")
    print(f"{args.out}.csv, {args.out}.json, {args.out}.png")


if __name__ == "__main__":
    main()
