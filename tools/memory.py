"""Memory of a training step: python tools/memory.py CONFIG ...

Estimates the memory with each activation checkpointing (model.backbone.with_cp) by running
the operators of a step on fake tensors. The peak is beyond weights and input and includes the
gradients, but not the optimizer states (once the weights for SGD with momentum, twice for AdamW).
Needs a clone of the repository.
"""

import itertools
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from mmvidformer.config import clip_shape, load_config
from mmvidformer.engine.arguments import add_force_argument, check_outputs
from mmvidformer.engine.errors import run_tool

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.memory import PRECISIONS, estimate
from mmvidformer.engine.tables import print_table

COLUMNS = ("config", "view", "batch", "type", "with_cp", "weights GB", "estimated peak GB")
WITH_CP = {"off": False, "activations": "activations", "on": True}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", help="config files, or names of shipped configs")
    parser.add_argument("--batch", type=int, default=1, help="clips per step (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--cp", choices=WITH_CP, nargs="+", default=[*WITH_CP], help="default: all")
    parser.add_argument("--csv", type=Path, help="csv file to write the table to")
    add_force_argument(parser)
    args = parser.parse_args(argv)
    if args.csv:
        check_outputs(vars(args), [("--csv", args.csv)], "csv")
    cases = list(itertools.product(args.configs, args.cp))
    rows = []
    for name, cp in tqdm(cases, disable=None, unit="step"):
        cfg = load_config(name)
        found = estimate(cfg, WITH_CP[cp], args.batch, args.precision)
        row = [
            name.removesuffix(".py"),
            "x".join(map(str, clip_shape(cfg)[1:])),
            args.batch,
            args.precision,
        ]
        row += [cp, f"{found.weights / 1e9:.3f}", f"{found.peak / 1e9:.3f}"]
        rows.append([*map(str, row)])
    print_table(COLUMNS, rows, file=args.csv)


if __name__ == "__main__":
    sys.exit(run_tool(main))
