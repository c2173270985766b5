"""Check published weights: python -m lab verify [NAME ...].

Weights are fetched, converted, and compared with logits that their authors publish and with the
code of transformers. Without names those of the whole table are checked
(mmvidformer/checkpoints/published.yml), several GB. The exit status is 1 if one fails.
"""

import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from lab.verification import Verified, report, verify
from mmvidformer.checkpoints import published
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically


def write_hashes(results: list[Verified]) -> None:
    """Write the hashes of those that passed into the table."""
    text = published.TABLE.read_text(encoding="utf-8")
    for result in filter(lambda one: one.passed, results):
        rows = re.findall(r"(?m)^- .*\n(?:  .*\n)*", text)
        row = next(row for row in rows if yaml.safe_load(row)[0]["name"] == result.name)
        kept = re.sub(r"(?m)^  sha256: .*\n", "", row)
        text = text.replace(row, f'{kept}  sha256: "{result.sha256}"\n')
    published.TABLE.write_text(text, encoding="utf-8")
    published.rows.cache_clear()


def list_results(results: list[Verified]) -> Iterator[str]:
    """Lines of a table of results."""
    yield f"{'name':52} {'logits':>10} {'code':>10} {'pixels':>6}  sha256"
    for one in results:
        cells = []
        for difference in (one.difference, one.code_difference):
            cells.append("-" if difference is None else f"{difference:.1e}")
        outcome = one.error or (one.sha256 if one.passed else f"{one.sha256}  DIFFERS")
        yield f"{one.name:52} {cells[0]:>10} {cells[1]:>10} {one.size or '-':>6}  {outcome}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of published://NAME")
    parser.add_argument("--write", action="store_true", help="write hashes into the table")
    parser.add_argument("--out", type=Path, help="page of one (.md), to be shared", metavar="FILE")
    parser.add_argument("--by", default="", help="who verifies, for the page")
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    if (args.by or args.out) and not (args.out and len(args.names) == 1):
        parser.error("--by goes with --out, and --out with one NAME")
    if args.out:
        check_outputs(vars(args), [("--out", args.out)], "out")
    rows = [published.row_of(published.PREFIX + name) for name in args.names]
    for row in rows:
        if row.address.startswith("timm:"):
            raise UserError(f"{row.name} is an image model, which timm itself loads")
    rows = rows or [row for row in published.rows() if not row.address.startswith("timm:")]
    results = [verify(row) for row in rows]
    print("\n".join(list_results(results)))
    if args.write:
        write_hashes(results)
    if args.out:
        with write_atomically(args.out) as part:
            page = "\n".join(report(rows[0], results[0], args.by))
            part.write_text(f"{page}\n", encoding="utf-8")
        print(f"written: {args.out}")
    return 0 if all(result.passed for result in results) else 1
