"""List shipped configs and published weights: mmvidformer models [FILTER] [--license NAME].

Sizes are those of one view (docs/model_zoo.md); the accuracy is as published, not measured here.
With --verify NAME, weights are fetched, converted, and compared with logits that their authors
publish and with the code of transformers. A page that can be shared says what came out.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import yaml

from mmvidformer.checkpoints.published import PREFIX, Published, by_name, row_of
from mmvidformer.checkpoints.published import rows as published_rows
from mmvidformer.checkpoints.timm_models import PREFIX as TIMM
from mmvidformer.config import list_models
from mmvidformer.config.shipped import config_folder
from mmvidformer.engine.arguments import add_force_argument, check_outputs
from mmvidformer.engine.tables import print_table
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 if no name matches."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="?", default="", help="part of the name; may have * and ?")
    parser.add_argument(
        "--pretrained",
        action="store_true",
        help="only those with published weights, and weights without a config of that name",
    )
    parser.add_argument(
        "--license",
        help="as --pretrained, only weights with this license, such as apache-2.0",
    )
    parser.add_argument("--verify", metavar="NAME", help="check the weights published://NAME")
    parser.add_argument("--by", default="", help="with --verify: who verifies, for the page")
    parser.add_argument(
        "--out", type=Path, help="with --verify: file of the page (.md)", metavar="FILE"
    )
    add_force_argument(parser)
    args = parser.parse_args(argv)
    if args.out:
        check_outputs(vars(args), [("--out", args.out)], "out")
    if args.verify:
        return verify_weights(args.verify, args.by, args.out)
    if args.by or args.out:
        parser.error("--by and --out need --verify")
    pattern = f"*{args.filter}*"
    with_weights = args.pretrained or bool(args.license)
    names, weights = list_models(pattern, with_weights), by_name()
    listed = published_rows()
    if args.license:
        listed = tuple(row for row in listed if row.license.lower() == args.license.lower())
        if not listed:
            known = ", ".join(sorted({row.license for row in published_rows() if row.license}))
            text = f"no weights have the license {args.license!r}; there are {known}"
            print(f"error: {text}", file=sys.stderr)
            return 1
        names = [name for name in names if weights[name] in listed]
    apart: list[Published] = []  # further weights, such as mirrors
    if with_weights:
        shown = [weights[name] for name in names]
        apart = [row for row in listed if row not in shown and fnmatch(row.name, pattern)]
    if not names and not apart:
        print(f"error: no name has {args.filter!r} in it", file=sys.stderr)
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


def verify_weights(name: str, by: str, out: Path | None) -> int:
    """Verify published weights and print, or write, the page; returns the exit status."""
    from mmvidformer.apis.verify import report, verify  # loads MMAction2's models

    row = row_of(f"{PREFIX}{name}")
    assert row is not None, "other names are a KeyError"
    if row.address.startswith(TIMM):
        raise UserError(f"{name} is an image model, which timm itself loads; nothing to verify")
    result = verify(row)
    page = "\n".join(report(row, result, by)) + "\n"
    if out is None:
        print(page, end="")
    else:
        with write_atomically(out) as part:
            part.write_text(page, encoding="utf-8")
        print(f"{name}: {result.verdict}; written: {out}")
    return 0 if result.passed else 1
