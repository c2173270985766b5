"""Count parameters and multiply-accumulates: mmvidformer count [CONFIG ...]."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import argument, option, parse_options


@dataclass(frozen=True)
class CountOptions(ForceOptions):
    """Configs, the size of their clips, and a table."""

    configs: Sequence[str] = argument("config files, or names of shipped configs", nargs="*")
    shape: Sequence[int] | None = option(
        "another size of the view", type=int, nargs=3, metavar=("T", "H", "W")
    )
    csv: Path | None = option("csv file to write the table to", type=Path, metavar="FILE")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    options = parse_options(CountOptions, argv, __doc__)
    if options.csv:
        check_outputs(vars(options), [("--csv", options.csv)], "csv")
    from tqdm import tqdm

    from mmvidformer.apis.complexity import count
    from mmvidformer.config import config_name, is_recurrent, list_models, load_config
    from mmvidformer.engine.tables import print_table

    names = options.configs or [
        name for name in list_models() if not is_recurrent(load_config(name))
    ]
    rows = []
    for name in tqdm(names, unit="config", disable=None):
        size = count(load_config(name), (3, *options.shape) if options.shape else None)
        row = [config_name(name), "x".join(map(str, size.shape[1:]))]
        rows.append([*row, f"{size.parameters / 1e6:.3f}", f"{size.macs / 1e9:.2f}"])
    print_table(["config", "view", "M params", "G MACs"], rows, file=options.csv)
