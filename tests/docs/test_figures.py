"""Tables of the pages have the figures of the files that runs wrote."""

import csv
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
AHEAD = ("2.00", "1.75", "1.50", "1.25", "1.00", "0.75", "0.50", "0.25")


def percents(name: str) -> dict[str, str]:
    with open(DOCS / "benchmark" / f"{name}.csv", newline="") as file:
        return {row["row"]: f"{100 * float(row['seed 0']):.1f}" for row in csv.DictReader(file)}


def cells(first: str) -> list[str]:
    """The other cells of a row of HORST's page, by its first one."""
    lines = (DOCS / "horst.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if "|" in line]
    (found,) = [row for row in rows if row[0] == first and row[1].replace(".", "").isdigit()]
    return found[1:]


@pytest.mark.parametrize("seen", ["25%", "50%", "all"])
def test_early_recognition(seen: str) -> None:
    measured = percents("horst_early_motion")
    rows = [f"{net}, {seen}" for net in ("HORST", "order 1", "mean of frames")]
    assert cells(seen)[1:] == [measured.get(row, "") for row in rows]


@pytest.mark.parametrize("task", ["verb", "noun", "action"])
def test_anticipation(task: str) -> None:
    measured = percents("horst_anticipation_motion")
    assert cells(task)[1:] == [measured[f"HORST: {task}/top1_{time}s"] for time in AHEAD]
