"""Memory of a training step: python tools/analysis/memory.py CONFIG ... [--measure].

Estimates it with and without activation checkpointing (model.backbone.with_cp), by running the
operators of a step on tensors without numbers. With --measure each step is also run, in a process
of its own, on random numbers; --depth leaves only the first blocks, which makes that possible on
small machines. The peak is beyond weights and input, and has the gradients in it; what the
optimiser keeps is not in it (once the weights for SGD with momentum, twice for AdamW).
"""

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from mmvidformer.analysis.training_memory import PRECISIONS, estimate, measure_apart
from mmvidformer.config import clip_shape, load_config
from mmvidformer.engine.launch import run_tool

COLUMNS = ("config", "view", "blocks", "batch", "type", "with_cp")
COLUMNS += ("weights GB", "estimated peak GB", "measured peak GB")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", help="config files, or names of shipped configs")
    parser.add_argument("--depth", type=int, nargs="+", help="only so many blocks; default: all")
    parser.add_argument("--batch", type=int, default=1, help="clips of a step (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument(
        "--cp", choices=["on", "off"], nargs="+", default=["off", "on"], help="default: both"
    )
    parser.add_argument("--measure", action="store_true", help="run the steps too")
    parser.add_argument("--device", default="cpu", help="where to measure (default cpu)")
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    args = parser.parse_args(argv)
    cases = [
        (name, depth, cp == "on")
        for name in args.configs
        for depth in args.depth or [None]
        for cp in args.cp
    ]
    rows = []
    for name, depth, with_cp in tqdm(cases, disable=None, unit="step"):
        cfg = load_config(name)
        step = dict(with_cp=with_cp, batch=args.batch, precision=args.precision, depth=depth)
        found = estimate(cfg, **step)
        measured = ""
        if args.measure:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "config.py"
                cfg.dump(path)
                measured = measure_apart(str(path), **step, device=args.device).peak
        sizes = (found.weights, found.peak, measured)
        row = [Path(name).stem, "x".join(map(str, clip_shape(cfg)[1:])), depth or "all"]
        row += [args.batch, args.precision, with_cp]
        rows.append([*map(str, row), *(f"{x / 1e9:.3f}" if x else "" for x in sizes)])

    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    sys.exit(run_tool(main))
