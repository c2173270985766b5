"""Check published checkpoints: python tools/verify_published.py [NAME ...].

Does what mmvidformer models --verify does for several names, without names for all of the table
(mmvidformer/checkpoints/published.yml), several GB. The exit status is 1 if one fails.
Needs a clone of the repository, since --write changes the table.
"""

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence

import yaml

from mmvidformer.apis.verify import Verified, verify
from mmvidformer.checkpoints import published
from mmvidformer.engine.errors import run_tool


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
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--write", action="store_true", help="write hashes into the table")
    args = parser.parse_args(argv)
    rows = [published.row_of(published.PREFIX + name) for name in args.names] or published.rows()
    results = [verify(row) for row in rows if not row.address.startswith("timm:")]
    print("\n".join(list_results(results)))
    if args.write:
        write_hashes(results)
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(run_tool(main))
