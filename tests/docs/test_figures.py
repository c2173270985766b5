"""Tables of the pages have the figures of the files that runs wrote."""

import csv
import re
from pathlib import Path

import pytest
import yaml

from benchmarks import real_cameras

DOCS = Path(__file__).parents[2] / "docs"


COMPARED = [
    f"{name}_motion"
    for name in ("compose_linear_time", "compose_windows", "compose_causal", "vivit_fsa")
]


def percents(name: str) -> dict[str, str]:
    with open(DOCS / "benchmark" / f"{name}.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {row: ", ".join(f"{100 * float(seed):.1f}" for seed in seeds) for row, *seeds in rows}


def cells(first: str, page: str) -> list[str]:
    """The other cells of a row of a page with numbers, by its first one."""
    lines = (DOCS / f"{page}.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if "|" in line]
    (found,) = [
        row
        for row in rows
        if re.sub(r" \(.*", "", row[0]) == first and row[1].replace(".", "").isdigit()
    ]
    return found[1:]


@pytest.mark.parametrize("name", COMPARED)
def test_compositions_and_presets(name: str) -> None:
    """Counts are those of the metafile; memory and accuracies are those of the csv files."""
    models = yaml.safe_load((DOCS.parent / "configs" / "metafile.yml").read_text())["Models"]
    (counts,) = [model["Metadata"] for model in models if model["Name"] == name]
    with open(DOCS / "benchmark" / "compose_memory.csv", newline="") as file:
        memory = {row["config"]: row["estimated peak GB"] for row in csv.DictReader(file)}
    parameters, macs, peak, accuracy = cells(f"`{name}`", "../reports/guides")
    assert parameters == f"{counts['Parameters'] / 1e6:.2f}"
    assert macs == f"{counts['MACs'] / 1e6:.1f}"
    assert peak == f"{1000 * float(memory[name]):.0f}"
    assert accuracy == percents("compose_motion")[name]


def test_real_cameras() -> None:
    """The first two tables of the page, classes and speeds, are those of the csv file."""
    with open(DOCS / "benchmark" / "real_cameras.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "test"]
    page = (DOCS / "camera_motion.md").read_text().replace("`camera_motion`", "camera_motion")
    classes = {name: lambda row, name=name: row["class"] == name for name in real_cameras.CLASSES}
    classes["all moving"] = lambda row: row["class"] != "static"
    classes["all"] = lambda row: True
    speeds = real_cameras.in_ranges("speed", real_cameras.SPEEDS, moving=True)
    assert real_cameras.table(rows, "class", classes) in page
    assert real_cameras.table(rows, "speed, moving cameras", speeds) in page
    sure = [row for row in rows if float(row["probability"]) > 0.9]
    right = sum(row["camera_motion"] == row["class"] for row in sure)
    assert f"right in {right} of {len(sure)} windows" in page
