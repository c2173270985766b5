"""Count parameters and multiply-accumulates: mmvidformer count [CONFIG ...]."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

import mmvidformer
from mmvidformer.apis.complexity import count
from mmvidformer.config import config_name, is_recurrent, load_config
from mmvidformer.engine.arguments import add_force_argument, check_outputs
from mmvidformer.engine.tables import print_table


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="*", help="config files, or names of shipped configs")
    size = dict(type=int, nargs=3, metavar=("T", "H", "W"))
    parser.add_argument("--shape", **size, help="another size of the view")
    parser.add_argument("--csv", type=Path, help="csv file to write the table to", metavar="FILE")
    add_force_argument(parser)
    args = parser.parse_args(argv)
    if args.csv:
        check_outputs(vars(args), [("--csv", args.csv)], "csv")
    names = args.configs or [
        name for name in mmvidformer.list_models() if not is_recurrent(load_config(name))
    ]
    rows = []
    for name in tqdm(names, unit="config", disable=None):
        size = count(load_config(name), (3, *args.shape) if args.shape else None)
        row = [config_name(name), "x".join(map(str, size.shape[1:]))]
        rows.append([*row, f"{size.parameters / 1e6:.3f}", f"{size.macs / 1e9:.2f}"])
    print_table(["config", "view", "M params", "G MACs"], rows, file=args.csv)
