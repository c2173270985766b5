"""Tables of the pages have the figures of the files that runs wrote."""

import csv
from pathlib import Path

from benchmarks import real_cameras

DOCS = Path(__file__).parents[2] / "docs"


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
