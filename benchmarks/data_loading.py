"""Measure the parts of data loading, and whether the dataloader keeps up with the model.

python -m benchmarks.data_loading CONFIG [--split train] [--model] [--out work_dirs/data]

Prints the milliseconds of each part for one sample in one process: wall time, and CPU time of one
core. --out writes data.csv. With --model, which measures the model's step, --clips-per-second or
--tflops, the slower of dataloader and model is named and a number of workers suggested. Dataloader
workers run the parts of process "worker", between two steps of the model the main process runs
those of process "main". --compare measures MMAction2's own classes for the same recipe in turn.
"""

import copy
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data_cost import (
    UTILIZATION,
    Part,
    loading_rate,
    measure_loading,
    model_rate,
    nominal_rate,
    suggest_workers,
    worker_cost,
)
from benchmarks.mmaction_pipeline import use_mmaction_classes
from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer.config import load_config
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.model_options import ConfigOptions
from mmvidformer.engine.options import add_options
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.engine.tables import print_table
from mmvidformer.video.choices import BACKENDS


def rows_of(parts: Sequence[Part]) -> list[list[str]]:
    """Return the rows of the table; fractions are those of the worker's CPU time."""
    total = Part("total", "worker", *worker_cost(parts))
    rows = []
    for part in [*parts, total]:
        fraction = f"{part.cpu / total.cpu:.1%}" if part.process == "worker" else ""
        rows.append([part.name, part.process, f"{part.wall:.3f}", f"{part.cpu:.3f}", fraction])
    return rows


def compare(parts: Sequence[Part], model: float, workers: int, cores: int) -> str:
    """Return a sentence on the clips per second of dataloader and model."""
    loader, suggested = loading_rate(parts, workers, cores), suggest_workers(parts, model, cores)
    text = (
        f"{workers} workers load {loader:.1f} clips per second, the model processes {model:.1f}: "
        f"the {'dataloader' if loader < model else 'model'} is the bottleneck. "
    )
    if suggested is not None:
        return text + f"Suggested: {suggested} workers per process."
    slowest = max(parts, key=lambda part: part.cpu * (part.process == "worker"))
    return text + f"{cores} cores are too few for more; the slowest part is {slowest.name}."


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, ConfigOptions)
    parser.add_argument("--split", choices=["train", "val", "test"], default="train")
    parser.add_argument("--samples", type=int, default=32, help="samples to load (default 32)")
    parser.add_argument("--workers", type=int, help="dataloader workers; default: the config's")
    parser.add_argument("--cores", type=int, help="cores for them; default: those of this process")
    parser.add_argument("--compare", action="store_true", help="also measure MMAction2's classes")
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--model", action="store_true", help="measure the model's step")
    rate.add_argument("--clips-per-second", type=float, help="speed of the model, if known")
    rate.add_argument("--tflops", type=float, help="speed of a GPU; names the cores that it needs")
    parser.add_argument("--video-backend", choices=BACKENDS, help="library that decodes videos")
    parser.add_argument("--out", type=Path, help="folder for data.csv")
    args = parse_with_results(parser, argv, with_suffixes("/data.csv", "/mmaction2.csv"))
    if args.split != "train" and (args.compare or args.tflops):
        parser.error("--compare and --tflops are for --split train")

    cfgs = {"data": load_config(args.config, args.cfg_options)}
    if args.compare:
        cfgs["mmaction2"] = copy.deepcopy(cfgs["data"])
        use_mmaction_classes(cfgs["mmaction2"])
    cfg = cfgs["data"]
    if args.video_backend:
        set_video_backend(cfg, args.video_backend)
    measured = measure_loading(*cfgs.values(), split=args.split, samples=args.samples)
    for name, parts in zip(cfgs, measured, strict=True):
        title = f"{args.config}, {args.split}" + ", MMAction2's classes" * (name != "data")
        file = args.out / f"{name}.csv" if args.out else None
        print_table(["part", "process", "ms", "CPU ms", "fraction"], rows_of(parts), title, file)
    model = model_rate(cfg, args.split) if args.model else args.clips_per_second
    if args.tflops:
        model = nominal_rate(cfg, args.tflops)
        cores = " or ".join(f"{model * worker_cost(parts)[1] / 1000:.1f}" for parts in measured)
        print(
            f"A GPU of {args.tflops:g} TFLOP/s, {UTILIZATION:.0%} of it used, trains {model:.1f} "
            f"clips per second and needs {cores} cores" + " (MMAction2)" * args.compare
        )
    if model is not None:
        workers = args.workers
        if workers is None:
            workers = cfg[f"{args.split}_dataloader"].get("num_workers", 0)
        affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        print(compare(measured[0], model, workers, args.cores or len(affinity(0))))


if __name__ == "__main__":
    sys.exit(run_tool(main))
