"""Count parameters and multiply-accumulates: python tools/analysis/complexity.py [CONFIG ...].

With --paper, compares all configs whose paper gives numbers; the exit status is 1 if one of them
is out of tolerance.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

import mmvidformer
from mmvidformer.analysis import PUBLISHED, Complexity, count
from mmvidformer.analysis.tables import print_table
from mmvidformer.config import is_recurrent, load_config
from mmvidformer.engine.launch import run_tool


def compare(name: str, size: Complexity) -> tuple[list[str], bool]:
    """Return the columns of the comparison with the paper, and whether all is within tolerance."""
    row = PUBLISHED[name]
    fits = True
    parameters, parameters_off, macs, macs_off = "", "", "", ""
    if row.parameters is not None:
        off = size.parameters / 1e6 - row.parameters
        fits &= abs(off) <= row.parameters_tolerance
        parameters, parameters_off = f"{row.parameters}", f"{off:+.3f}"
    if row.macs is not None:
        off = size.macs / 1e9 / row.macs - 1
        fits &= abs(off) <= row.macs_tolerance
        macs, macs_off = f"{row.macs:.1f}", f"{off:+.2%}"
    verdict = "yes" if fits else "NO"
    return [parameters, parameters_off, macs, macs_off, row.source, verdict], fits


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="*", help="config files, or names of shipped configs")
    parser.add_argument("--paper", action="store_true", help="compare with the papers' numbers")
    parser.add_argument(
        "--shape", type=int, nargs=3, metavar=("T", "H", "W"), help="another size of the view"
    )
    parser.add_argument("--csv", type=Path, help="csv file to write the table to")
    args = parser.parse_args(argv)
    names = args.configs or (list(PUBLISHED) if args.paper else mmvidformer.list_models())
    if not args.configs:
        names = [name for name in names if not is_recurrent(load_config(name))]
    columns = ["config", "view", "M params", "G MACs"]
    if args.paper:
        columns += ["paper M", "diff", "paper G", "diff", "source", "within"]
        names = [name for name in names if Path(name).stem in PUBLISHED]

    rows, all_fit = [], True
    for name in tqdm(names, unit="config", disable=None):
        size = count(load_config(name), (3, *args.shape) if args.shape else None)
        stem = Path(name).stem
        view = "x".join(map(str, size.shape[1:]))
        row = [stem, view, f"{size.parameters / 1e6:.3f}", f"{size.macs / 1e9:.2f}"]
        if args.paper:
            more, fits = compare(stem, size)
            row, all_fit = row + more, all_fit and fits
        rows.append(row)
    print_table(columns, rows, file=args.csv)
    return 0 if all_fit else 1


if __name__ == "__main__":
    sys.exit(run_tool(main))
