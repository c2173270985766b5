"""Measure the speed and memory of configs and of the same models in other projects.

python -m benchmarks.models timesformer_b_k400 vivit_st_k400 --optimize --out work_dirs/speed

All models that compute the same function get the same weights, and must compute the same logits
(1e-4) before anything is measured. The models take turns in rounds, in inference and in training
steps. "ms" is the median over the rounds, "time / ours" the median of the time relative to
mmvidformer's model in the same round (the optimized one if there is one); above 1 is slower.
Peak memory is that of a pass beyond weights and input, on a CPU in a process per model. The floors
are the time of a large matmul with as many multiply-accumulates, and of a copy of as many bytes as
weights and input; three times as many for a training step. On a CPU let glibc keep freed memory
(docs/running.md), as in the published tables.

Writes OUT.csv, OUT.json (machine, versions, command) and OUT.png. --page PAGE.md updates the blocks
of pages from such files (see benchmarks/page.py), also without any config to measure.
"""

import datetime
import os
import shlex
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read once, when torch is imported

import torch
from rich.progress import track

from benchmarks.compare import COMPILED, PASSES, Result, Settings, compare
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.page import COLUMNS, fill_page, row_of, write_results
from benchmarks.plots import draw_bars
from benchmarks.versions import versions
from mmvidformer.config import config_name, load_config
from mmvidformer.engine.loading import default_device
from mmvidformer.engine.tables import print_table
from mmvidformer.processor import processor_flags, processor_name

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def machine(device: str, threads: int) -> str:
    """Return the name of the GPU, or name and threads of the CPU."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    best = torch.backends.cpu.get_cpu_capability()
    told = ("avx512_bf16", "avx512_vnni", "amx_bf16")
    flags = [flag for flag in told if flag in processor_flags()]
    return ", ".join(
        [processor_name(), f"{os.cpu_count()} cores", f"{threads} threads", best, *flags]
    )


def panels_of(results: dict[str, list[Result]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the bars of the plot: milliseconds and floor of each model."""
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for config, rows in results.items():
        for row in rows:
            floor = max(row.matmul_floor, row.copy_floor)
            bar = (row.seconds * 1000, floor * 1000)
            panels.setdefault(f"{config}, {row.phase}", {})[row.model] = bar
    return panels


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", help="config files, or names of shipped configs")
    parser.add_argument("--out", type=Path, help="path of the files, without suffix")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="bf16 and fp16: autocast")
    parser.add_argument(
        "--compile",
        nargs="?",
        choices=COMPILED,
        const="model",
        help="use torch.compile, on whole models or, where there are some, on our blocks alone",
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--batch", type=int, default=1, help="clips per step")
    parser.add_argument(
        "--optimize", action="store_true", help="include the model as inference and training run it"
    )
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES))
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before them (default 1)")
    parser.add_argument("--no-memory", action="store_true", help="skip peak memory")
    parser.add_argument("--without", nargs="+", default=[], help="baselines to leave out")
    parser.add_argument("--page", type=Path, nargs="+", default=[], help="pages to update")
    args = parse_with_results(parser, argv, with_suffixes(".csv", ".json", ".png"))
    if args.configs and not args.out:
        parser.error("--out is required: the path of the files to write")
    if not args.configs and not args.page:
        parser.error("configs to measure or --page are required")
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
        optimize=args.optimize,
        repeats=args.repeats,
        warmup=args.warmup,
        memory=not args.no_memory,
        without=tuple(args.without),
    )
    compiled = {None: "eager", "model": "compiled", "blocks": "blocks compiled"}[args.compile]
    about = {
        "machine": machine(args.device, args.threads),
        "settings": f"{args.dtype}, batch {args.batch}, {compiled}, "
        f"median of {args.repeats} rounds after {args.warmup}",
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.models", *command]),
    }
    results: dict[str, list[Result]] = {}
    rows: list[list[str]] = []
    for name in track(args.configs, "measuring"):
        config = config_name(name)
        results[config] = compare(load_config(name).model, settings, args.passes)
        rows += [row_of(config, result) for result in results[config]]
        write_results(args.out, rows, about)  # after each one, in case this process is stopped
    print_table(COLUMNS, rows, f"{args.device}, {args.dtype}, batch {args.batch}")
    draw_bars(panels_of(results), "ms").savefig(f"{args.out}.png")
    print(f"{args.out}.csv, {args.out}.json, {args.out}.png")


if __name__ == "__main__":
    main()
