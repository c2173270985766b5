"""List shipped configs and published weights: mmvidformer models [FILTER] [--license NAME].

Sizes are those of one view (docs/model_zoo.md); the accuracy is as published, not measured here.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from mmvidformer.engine.options import Options, argument, flag, option, parse_options


@dataclass(frozen=True)
class ModelsOptions(Options):
    """Which configs and weights are listed."""

    filter: str = argument("part of the name; may have * and ?", nargs="?")
    pretrained: bool = flag(
        "only those with published weights, and weights without a config of that name"
    )
    license: str | None = option(
        "as --pretrained, only weights with this license, such as apache-2.0"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 if no name matches."""
    options = parse_options(ModelsOptions, argv, __doc__)
    import yaml

    from mmvidformer.checkpoints.published import Published, by_name
    from mmvidformer.checkpoints.published import rows as published_rows
    from mmvidformer.config import list_models
    from mmvidformer.config.shipped import config_folder
    from mmvidformer.engine.tables import print_table

    pattern = f"*{options.filter or ''}*"
    with_weights = options.pretrained or bool(options.license)
    names, weights = list_models(pattern, with_weights), by_name()
    listed = published_rows()
    if options.license:
        listed = tuple(row for row in listed if row.license.lower() == options.license.lower())
        if not listed:
            known = ", ".join(sorted({row.license for row in published_rows() if row.license}))
            text = f"no weights have the license {options.license!r}; there are {known}"
            print(f"error: {text}", file=sys.stderr)
            return 1
        names = [name for name in names if weights[name] in listed]
    apart: list[Published] = []  # further weights, such as mirrors
    if with_weights:
        shown = [weights[name] for name in names]
        apart = [row for row in listed if row not in shown and fnmatch(row.name, pattern)]
    if not names and not apart:
        print(f"error: no name has {options.filter!r} in it", file=sys.stderr)
        return 1
    file = config_folder() / "metafile.yml"
    models = yaml.safe_load(file.read_text(encoding="utf-8"))["Models"]
    sizes = {model["Name"]: model["Metadata"] for model in models}
    rows = []
    for name in names:
        size, row = sizes[name], weights.get(name)
        counts = f"{size['Parameters'] / 1e6:.1f}", f"{size['MACs'] / 1e9:.1f}"
        known = (row.accuracy or "yes", row.license or "unknown") if row else "  "
        rows.append((name, size["View"], *counts, *known))
    for row in apart:
        cells = (row.accuracy or "yes", row.license or "unknown")
        rows.append((f"published://{row.name}", "", "", "", *cells))
    columns = ("config", "T x H x W", "M params", "G MACs", "published weights", "license")
    print_table(columns, rows)
    return 0
