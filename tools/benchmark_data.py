"""Measure the parts of data loading, and whether the dataloader keeps up with the model.

python tools/benchmark_data.py CONFIG [--split train] [--model] [--out work_dirs/benchmark_data]

Prints the median milliseconds of each part for one sample in one process. --out writes them to
data.csv. --model measures the model's step on this device, --clips-per-second gives
its speed; with either, the slower of dataloader and model is named and a number of workers
suggested. Dataloader workers run the parts of process "worker", between two steps of the model the
main process runs those of process "main".
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.analysis.data_loading import (
    Part,
    loading_rate,
    measure_loading,
    model_rate,
    suggest_workers,
)
from mmvidformer.analysis.tables import print_table
from mmvidformer.config import load_config
from mmvidformer.datasets.decoding.readers import BACKENDS
from mmvidformer.engine.decoding import set_video_backend
from mmvidformer.engine.launch import add_model_arguments, run_tool


def rows_of(parts: Sequence[Part]) -> list[list[str]]:
    """Return the rows of the table; fractions are those of the worker's total."""
    total = sum(part.milliseconds for part in parts if part.process == "worker")
    rows = []
    for part in [*parts, Part("total", "worker", total)]:
        fraction = f"{part.milliseconds / total:.1%}" if part.process == "worker" else ""
        rows.append([part.name, part.process, f"{part.milliseconds:.3f}", fraction])
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
    slowest = max(parts, key=lambda part: part.milliseconds * (part.process == "worker"))
    return text + f"{cores} cores are too few for more; the slowest part is {slowest.name}."


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, checkpoint=False, device=False)
    parser.add_argument("--split", choices=["train", "val", "test"], default="train")
    parser.add_argument("--samples", type=int, default=32, help="samples to load (default 32)")
    parser.add_argument("--workers", type=int, help="dataloader workers; default: the config's")
    parser.add_argument("--cores", type=int, help="cores for them; default: those of this process")
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--model", action="store_true", help="measure the model's step")
    rate.add_argument("--clips-per-second", type=float, help="speed of the model, if known")
    parser.add_argument("--video-backend", choices=BACKENDS, help="library that decodes videos")
    parser.add_argument("--out", type=Path, help="folder for data.csv")
    args = parser.parse_args(argv)

    cfg = load_config(args.config, args.cfg_options)
    if args.video_backend:
        set_video_backend(cfg, args.video_backend)
    parts, title = measure_loading(cfg, args.split, args.samples), f"{args.config}, {args.split}"
    file = args.out / "data.csv" if args.out else None
    print_table(["part", "process", "ms", "fraction"], rows_of(parts), title, file)
    model = model_rate(cfg, args.split) if args.model else args.clips_per_second
    if model is not None:
        workers = args.workers
        if workers is None:
            workers = cfg[f"{args.split}_dataloader"].get("num_workers", 0)
        affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        print(compare(parts, model, workers, args.cores or len(affinity(0))))


if __name__ == "__main__":
    sys.exit(run_tool(main))
