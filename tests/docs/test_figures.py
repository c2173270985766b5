"""Tables of the pages have the figures of the files that runs wrote."""

import csv
from pathlib import Path

from benchmarks import camera_rates, real_cameras

REPORTS = Path(__file__).parents[2] / "reports"


def test_real_cameras() -> None:
    """The tables of classes, speeds, probabilities and rates are those of the csv file."""
    with open(REPORTS / "benchmark" / "real_cameras.csv", newline="") as file:
        tested = [row for row in csv.DictReader(file) if row["part"] == "test"]
    rows = [row for row in tested if row["class"]]
    page = (REPORTS / "camera_motion.md").read_text().replace("`camera_motion`", "camera_motion")
    classes = {name: lambda row, name=name: row["class"] == name for name in real_cameras.CLASSES}
    classes["all moving"] = lambda row: row["class"] != "static"
    classes["all"] = lambda row: True
    speeds = real_cameras.in_ranges("speed", real_cameras.SPEEDS, moving=True)
    assert real_cameras.table(rows, "class", classes) in page
    assert real_cameras.table(rows, "speed, moving cameras", speeds) in page
    sure = real_cameras.in_ranges("probability", real_cameras.SURE)
    assert real_cameras.table(rows, "probability", sure) in page
    assert camera_rates.rates_table(tested, real_cameras.NAMES) in page
    assert camera_rates.shares_table(tested, real_cameras.NAMES) in page
