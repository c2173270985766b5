"""The papers' claims in miniature, judged by one rule: python -m benchmarks.claims.

Reads the claims (``benchmarks/claims.yml``) and the accuracies of their rows
(``reports/claims.csv``), and writes the table of ``reports/claims.md``. A claim is that a row
is ahead of another with the same budget, or several rows are. A pair whose rows both come near 100%
decides nothing. For the others, the differences over the seeds that both rows have in common decide
(95% interval, Student's t):

- contradicted: an interval is below 0
- shown: all pairs decide, and all intervals are above 0
- undecided: all others
"""

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import yaml

from lab.papers.summary import interval, mean_interval

ROOT = Path(__file__).parents[1]
FILE = ROOT / "reports" / "claims.csv"
PAGE = ROOT / "reports" / "claims.md"
CEILING = 0.93  # rows that both have this mean accuracy leave little to gain
BLOCK = re.compile(r"(<!-- claims -->\n).*?(<!-- end of claims -->)", re.DOTALL)


@dataclass(frozen=True)
class Measured:
    """Accuracy of a row by seed, from 0 to 1, and CPU time of all its runs in minutes."""

    seeds: Mapping[str, float]
    minutes: float


def read_measured(file: Path = FILE) -> dict[str, Measured]:
    """Read the rows of a file; rows without minutes are further tests of the row above."""
    with open(file, newline="") as lines:
        return {
            line.pop("row"): Measured(
                minutes=float(line.pop("core minutes") or 0),
                seeds={seed: float(value) for seed, value in line.items() if value},
            )
            for line in csv.DictReader(lines)
        }


def differences(first: Measured, second: Measured) -> list[float] | None:
    """Differences of two rows for each seed that both have; None if both come near 100%."""
    if min(mean(row.seeds.values()) for row in (first, second)) >= CEILING:
        return None
    return [first.seeds[seed] - second.seeds[seed] for seed in first.seeds if seed in second.seeds]


def verdict(pairs: Sequence[Sequence[float] | None]) -> str:
    """Judge a claim from the differences of its pairs; see the module."""
    deciding = [pair for pair in pairs if pair is not None]
    spans = [(center - half, center + half) for center, half in map(mean_interval, deciding)]
    if any(high < 0 for _, high in spans):
        return "contradicted"
    if len(deciding) == len(pairs) and all(low > 0 for low, _ in spans):
        return "shown"
    return "undecided"


def table(claims: Sequence[Mapping], measured: Mapping[str, Measured]) -> str:
    """Return the table of the claims, as Markdown."""
    lines = ["| claim | paper | difference | core minutes | |", "|---|---|---|---|---|"]
    for claim in claims:
        rows = {row: measured[row] for pair in claim["pairs"].values() for row in pair}
        pairs = {
            name: differences(measured[first], measured[second])
            for name, (first, second) in claim["pairs"].items()
        }
        cells = "<br>".join(
            f"{name}: {'both near 100' if values is None else interval(values)}"
            for name, values in pairs.items()
        )
        minutes = sum(row.minutes for row in rows.values())
        word = f"**{verdict(list(pairs.values()))}**"
        if word == "**shown**" and claim.get("by construction"):
            word += ", by construction"
        lines.append(f"| {claim['claim']} | {claim['paper']} | {cells} | {minutes:.0f} | {word} |")
    return "\n".join([*lines, ""])


def fill_page(page: str) -> str:
    """Return a page with its table of claims updated."""
    claims = yaml.safe_load((ROOT / "benchmarks" / "claims.yml").read_text("utf-8"))["claims"]
    text = table(claims, read_measured())
    return BLOCK.sub(lambda mark: mark[1] + text + mark[2], page)


if __name__ == "__main__":
    PAGE.write_text(fill_page(PAGE.read_text("utf-8")), encoding="utf-8")
    sys.exit()
