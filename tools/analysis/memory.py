"""Memory of a training step: python tools/analysis/memory.py CONFIG ... [--measure].

Estimates the memory with and without activation checkpointing (model.backbone.with_cp) by running
the operators of a step on fake tensors. With --measure each step is also run on random data.
--depth keeps only the first blocks, which lets small machines measure. The peak is beyond weights
and input and includes the gradients, but not the optimizer states (once the weights for SGD with
momentum, twice for AdamW).
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mmvidformer.analysis.memory import PRECISIONS, Step, estimate, measure
from mmvidformer.analysis.tables import print_table
from mmvidformer.config import clip_shape, load_config
from mmvidformer.engine.launch import run_tool

COLUMNS = ("config", "view", "blocks", "batch", "type", "with_cp", "weights GB",
           "estimated peak GB", "measured peak GB")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", help="config files, or names of shipped configs")
    parser.add_argument(
        "--depth", type=int, nargs="+", default=[None], help="number of blocks; default: all"
    )
    parser.add_argument("--batch", type=int, default=1, help="clips per step (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument(
        "--cp", choices=["on", "off"], nargs="+", default=["off", "on"], help="default: both"
    )
    parser.add_argument("--measure", action="store_true", help="also run the steps")
    parser.add_argument("--device", default="cpu", help="device to measure on (default cpu)")
    parser.add_argument("--csv", type=Path, help="csv file to write the table to")
    args = parser.parse_args(argv)
    cases = list(itertools.product(args.configs, args.depth, args.cp))
    rows = []
    for name, depth, cp in tqdm(cases, disable=None, unit="step"):
        cfg, step = load_config(name), Step(cp == "on", args.batch, args.precision, depth)
        found, measured = estimate(cfg, step), ""
        if args.measure:
            measured = f"{measure(cfg, step, args.device).peak / 1e9:.3f}"
        row = [Path(name).stem, "x".join(map(str, clip_shape(cfg)[1:])), depth or "all"]
        row += [step.batch, step.precision, step.with_cp]
        row += [f"{found.weights / 1e9:.3f}", f"{found.peak / 1e9:.3f}", measured]
        rows.append([*map(str, row)])
    print_table(COLUMNS, rows, file=args.csv)


if __name__ == "__main__":
    sys.exit(run_tool(main))
