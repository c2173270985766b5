"""List shipped configs and published weights: mmvidformer models [FILTER] [--pretrained].

Sizes are those of one view (docs/model_zoo.md); the accuracy is as published, not measured here.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import yaml

from mmvidformer.checkpoints.published import by_name
from mmvidformer.config import list_models
from mmvidformer.config.shipped import config_folder
from mmvidformer.engine.tables import print_table


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 if no name matches."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="?", default="", help="part of the name; may have * and ?")
    parser.add_argument(
        "--pretrained", action="store_true", help="only those with published weights"
    )
    args = parser.parse_args(argv)
    names, weights = list_models(f"*{args.filter}*", args.pretrained), by_name()
    if not names:
        print(f"error: no name has {args.filter!r} in it", file=sys.stderr)
        return 1
    file = config_folder() / "metafile.yml"
    models = yaml.safe_load(file.read_text(encoding="utf-8"))["Models"]
    sizes = {model["Name"]: model["Metadata"] for model in models}
    rows = []
    for name in names:
        size, row = sizes[name], weights.get(name)
        counts = f"{size['Parameters'] / 1e6:.1f}", f"{size['MACs'] / 1e9:.1f}"
        known = (row.accuracy or "yes", row.license) if row else "  "
        rows.append((name, size["View"], *counts, *known))
    columns = ("config", "T x H x W", "M params", "G MACs", "published weights", "license")
    print_table(columns, rows)
    return 0
