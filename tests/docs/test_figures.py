"""Tables of the pages have the figures of the files that runs wrote."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks import claims, real_cameras
from mmvidformer.papers.summary import interval

DOCS = Path(__file__).parents[2] / "docs"
AHEAD = ("2.00", "1.75", "1.50", "1.25", "1.00", "0.75", "0.50", "0.25")


COMPARED = [
    f"{name}_motion"
    for name in ("compose_linear_time", "compose_windows", "compose_causal", "vivit_fsa")
]


def percents(name: str) -> dict[str, str]:
    with open(DOCS / "benchmark" / f"{name}.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {row: ", ".join(f"{100 * float(seed):.1f}" for seed in seeds) for row, *seeds in rows}


def cells(first: str, page: str = "horst") -> list[str]:
    """The other cells of a row of a page with numbers, by its first one."""
    lines = (DOCS / f"{page}.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if "|" in line]
    (found,) = [
        row
        for row in rows
        if re.sub(r" \(.*", "", row[0]) == first and row[1].replace(".", "").isdigit()
    ]
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


@pytest.mark.parametrize("name", COMPARED)
def test_compositions_and_presets(name: str) -> None:
    """Counts are those of the metafile; memory and accuracies are those of the csv files."""
    models = yaml.safe_load((DOCS.parent / "configs" / "metafile.yml").read_text())["Models"]
    (counts,) = [model["Metadata"] for model in models if model["Name"] == name]
    with open(DOCS / "benchmark" / "compose_memory.csv", newline="") as file:
        memory = {row["config"]: row["estimated peak GB"] for row in csv.DictReader(file)}
    parameters, macs, peak, accuracy = cells(f"`{name}`", "compose")
    assert parameters == f"{counts['Parameters'] / 1e6:.2f}"
    assert macs == f"{counts['MACs'] / 1e6:.1f}"
    assert peak == f"{1000 * float(memory[name]):.0f}"
    assert accuracy == percents("compose_motion")[name]


def test_claims() -> None:
    """Means and intervals are those of the csv file."""
    measured = {
        row: interval(list(one.seeds.values())) for row, one in claims.read_measured().items()
    }
    page = claims.PAGE.read_text("utf-8")
    lines = re.findall(r"(?m)^\| `(\w+/\w+/\w+[^`]*)` .*\| ([^|]+) \|$", page)
    assert dict(lines) == measured
    assert len(lines) == len(measured)


def test_hostile_files() -> None:
    """The counts are those of the csv file, in which nothing was reached."""
    with open(DOCS / "robustness" / "hostile_files.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["reached"] for row in rows} == {"no"}
    names = [{row[key] for row in rows} for key in ("entry", "file")]
    sizes = f"{len(names[0])} entry points .* times {len(names[1])} files. Of {len(rows)} tries"
    assert re.search(sizes, (DOCS / "stress.md").read_text())
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        group = "weights from elsewhere" if row["file"].startswith("base: ") else "code"
        group = "a program as its config" if "program as its config" in row["file"] else group
        counts.setdefault(group, Counter())[row["saw"].partition(":")[0]] += 1
    lines = [line.strip("| ").split(" | ") for line in (DOCS / "stress.md").read_text().split("\n")]
    for group, seen in counts.items():
        (found,) = [cells for cells in lines if cells[0].startswith(group)]
        assert found[1:] == [str(seen[kind]) for kind in ("refused", "error", "accepted", "hangs")]


def test_real_cameras() -> None:
    """The tables of the page, classes, speeds and rates, are those of the csv file."""
    with open(DOCS / "benchmark" / "real_cameras.csv", newline="") as file:
        tracked = [row for row in csv.DictReader(file) if row["part"] == "test"]
    rows = [row for row in tracked if row["class"]]
    page = (DOCS / "camera_motion.md").read_text().replace("`camera_motion`", "camera_motion")
    classes = {name: lambda row, name=name: row["class"] == name for name in real_cameras.CLASSES}
    classes["all moving"] = lambda row: row["class"] != "static"
    classes["all"] = lambda row: True
    speeds = real_cameras.in_ranges("speed", real_cameras.SPEEDS, moving=True)
    assert real_cameras.table(rows, "class", classes) in page
    assert real_cameras.table(rows, "speed, moving cameras", speeds) in page
    assert real_cameras.rates_table(tracked) in page
    sure = [row for row in rows if float(row["probability"]) > 0.9]
    right = sum(row["camera_motion"] == row["class"] for row in sure)
    assert f"right in {right} of {len(sure)} windows" in page
