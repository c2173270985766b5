"""Tables of the reports have the figures of the files that runs wrote."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks import causal_accuracy, claims, token_dropping
from lab.papers.summary import interval

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
COMPARED = ("compose_linear_time", "compose_windows", "compose_causal", "vivit_fsa")
AHEAD = ("2.00", "1.75", "1.50", "1.25", "1.00", "0.75", "0.50", "0.25")


def percents(name: str) -> dict[str, str]:
    """Values of a file in percent, by the first cell of their row."""
    with open(REPORTS / "benchmark" / f"{name}.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {row: f"{100 * float(value):.1f}" for row, value in rows}


def table_row(report: str, table: str, first: str) -> list[str]:
    """The cells after the first one of a row, in the table whose header begins with ``table``."""
    text = (REPORTS / report).read_text().partition(f"\n| {table} |")[2]
    lines = text.partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    (cells,) = [row[1:] for row in rows if row[0] == first]
    return cells


@pytest.mark.parametrize("seen", ["25%", "50%", "all"])
def test_early_recognition(seen: str) -> None:
    measured = percents("horst_early_motion")
    rows = [f"{net}, {seen}" for net in ("HORST", "order 1", "mean of frames")]
    cells = table_row("generated_videos.md", "seen", seen)
    assert cells[1:] == [measured.get(row, "") for row in rows]


@pytest.mark.parametrize("task", ["verb", "noun", "action"])
def test_anticipation(task: str) -> None:
    measured = percents("horst_anticipation_motion")
    cells = table_row("generated_videos.md", "| constant", task)
    assert cells[1:] == [measured[f"HORST: {task}/top1_{time}s"] for time in AHEAD]


@pytest.mark.parametrize("name", COMPARED)
def test_compositions_and_presets(name: str) -> None:
    """Counts are those of the metafile; memory and accuracies are those of the csv files."""
    models = yaml.safe_load((ROOT / "configs" / "metafile.yml").read_text())["Models"]
    (counts,) = [model["Metadata"] for model in models if model["Name"] == f"{name}_motion"]
    folder = REPORTS / "benchmark"
    with open(folder / "compose_memory.csv", newline="") as file:
        memory = {row["config"]: row["estimated peak GB"] for row in csv.DictReader(file)}
    with open(folder / "compose_motion.csv", newline="") as file:
        accuracies = {row: seeds for row, *seeds in csv.reader(file)}
    assert table_row("guides.md", "config | M params", f"`{name}_motion`") == [
        f"{counts['Parameters'] / 1e6:.2f}",
        f"{counts['MACs'] / 1e6:.1f}",
        f"{1000 * float(memory[f'{name}_motion']):.0f}",
        ", ".join(f"{100 * float(seed):.1f}" for seed in accuracies[f"{name}_motion"]),
    ]


def test_authors_code() -> None:
    """All times and differences are those of the csv file."""
    with open(REPORTS / "benchmark" / "cpu_authors.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    forms = ("authors", "plain", "optimized", "HuggingFace")
    for encoder in {row["encoder"] for row in rows}:
        found = {row["model"]: row for row in rows if row["encoder"] == encoder}
        times = [f"{float(found[f]['CPU s']):.1f}" if f in found else "" for f in forms]
        difference = max(float(row["difference"]) for row in found.values())
        last = [found["authors"]["authors / optimized"], f"{difference:.0e}"]
        cells = table_row("speed.md", "encoder | clip", f"`{encoder}`")
        assert cells[1:] == [*times, *last], encoder


def test_descendants() -> None:
    """CPU times beside HuggingFace, and the quotient, are those of the csv file."""
    with open(REPORTS / "benchmark" / "cpu_descendants.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for config in {row["config"] for row in rows}:
        found = {row["model"]: row for row in rows if row["config"] == config}
        forms = ("mmvidformer", "mmvidformer optimized", "HuggingFace")
        times = [f"{float(found[form]['CPU ms']) / 1000:.2f}" for form in forms]
        quotient = f"{float(found['HuggingFace']['CPU time / ours']):.2f}"
        table = "config | plain | optimized | HuggingFace"
        assert table_row("speed.md", table, f"`{config}`") == [*times, quotient]


def read_epochs(name: str) -> dict[str, list[tuple[float, float]]]:
    """CPU seconds and accuracy of the epochs, by run."""
    runs = json.loads((REPORTS / "benchmark" / f"{name}.json").read_text())
    return {run: [(seconds, accuracy) for seconds, accuracy in runs[run]] for run in runs}


def rows_in(report: str, table: str) -> list[list[str]]:
    """The cells of the rows of a table whose header begins with ``table``."""
    text = (REPORTS / report).read_text().partition(f"\n| {table} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_token_dropping() -> None:
    epochs = read_epochs("token_dropping")
    written = rows_in("inexact.md", "model, clips | tokens")
    assert len(written) == 2 * len(token_dropping.WAYS)
    for task in token_dropping.TASKS:
        runs = {
            way: [epochs[f"{task}_{way.token_keep:g}_{way.times}_{seed}"] for seed in range(3)]
            for way in token_dropping.WAYS
        }
        for row in map(cells_of, token_dropping.rows_of(runs)):
            tokens, *found = written.pop(0)[1:]
            row[3] = row[3] if tokens == "100%" else ""  # stated once for a task
            assert [tokens, *found] == row


def test_causal_models_beside_horst() -> None:
    epochs = read_epochs("causal_accuracy")
    written = rows_in("guides.md", "task | config | accuracy at the end, %")
    for task in ("recall", "early"):
        _, configs = causal_accuracy.TASKS[task]
        runs = {config: [epochs[f"{config}_{seed}"] for seed in range(3)] for config in configs}
        for row in map(cells_of, causal_accuracy.rows_of(runs)):
            assert written.pop(0)[1:] == [f"`{row[0]}`", *row[1:]]
    assert written == []


@pytest.mark.parametrize("cameras", ["still", "moving"])
@pytest.mark.parametrize(
    "run, table",
    [("run_lengths", "video | windows"), ("run_lengths_trained", "video of a known camera")],
)
def test_run_lengths_on_real_videos(run: str, table: str, cameras: str) -> None:
    with open(REPORTS / "benchmark" / f"{run}_{cameras}_cameras.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = Path(row["video"]).stem
        name = f"**{cameras} cameras, all** (median)" if name == "all" else name
        assert table_row("inexact.md", table, name) == [
            row["clips"],
            f"{float(row['tokens']):.0%}",
            f"{float(row['faster']):.2f} x",
            f"{float(row['scores']):.2g}",
            f"{row['changed']} of {row['answers']}",
        ]


@pytest.mark.parametrize("cameras", ["still", "moving"])
def test_run_lengths_of_a_large_model(cameras: str) -> None:
    path = REPORTS / "benchmark" / f"run_lengths_vivit_b_{cameras}_cameras.csv"
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    for row in rows:
        name = Path(row["video"]).stem
        name = f"**{cameras} cameras** (median)" if name == "all" else name
        cells = [f"{float(row['tokens']):.0%}", f"{float(row['faster']):.2f} x"]
        assert table_row("inexact.md", "video | tokens of ViViT-B computed", name) == cells


def test_claims() -> None:
    """Means and intervals are those of the csv file."""
    measured = {
        name: interval(list(row.seeds.values())) for name, row in claims.read_measured().items()
    }
    lines = re.findall(
        r"(?m)^\| `(\w+/\w+/\w+[^`]*)` .*\| ([^|]+) \|$", claims.PAGE.read_text("utf-8")
    )
    assert dict(lines) == measured
    assert len(lines) == len(measured)


def test_hostile_files() -> None:
    """The counts are those of the csv file, in which nothing was reached."""
    with open(REPORTS / "robustness" / "hostile_files.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["reached"] for row in rows} == {"no"}
    entries, files = ({row[key] for row in rows} for key in ("entry", "file"))
    text = (REPORTS / "stress.md").read_text()
    assert f"{len(entries)} entry points times {len(files)} files: {len(rows)} tries" in text
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        group = "weights from elsewhere" if row["file"].startswith("base: ") else "code"
        group = "a program as its config" if "program as its config" in row["file"] else group
        counts.setdefault(group, Counter())[row["saw"].partition(":")[0]] += 1
    lines = [line.strip("| ").split(" | ") for line in text.split("\n")]
    for group, seen in counts.items():
        (cells,) = [cells for cells in lines if cells[0].startswith(group)]
        assert cells[1:] == [str(seen[kind]) for kind in ("refused", "error", "accepted", "hangs")]


def test_reports_that_are_named_exist() -> None:
    """In pages, configs and code; and links between reports."""
    folders = ("docs", "configs", "mmvidformer", "benchmarks", "stress")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    texts = [p.read_text() for p in paths if p.suffix in (".md", ".py", ".yml")]
    texts += [(ROOT / name).read_text() for name in ("README.md", "SECURITY.md")]
    named = {name for text in texts for name in re.findall(r"\breports/[\w/]+\.\w+", text)}
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []
    for report in REPORTS.glob("*.md"):
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", report.read_text())
        assert [name for name in targets if not (REPORTS / name).is_file()] == [], report.name


def test_moments() -> None:
    """Without a model, and of three seeds, mean and interval."""
    with open(REPORTS / "benchmark" / "moments.csv", newline="") as file:
        _, (_, *alone), *seeds = csv.reader(file)
    title = "moments | within 1 frame | 2 frames | 4 frames | 6 frames"
    rule = "rise of frame differences, nearest mean flow: no model"
    assert table_row("guides.md", title, rule) == alone
    columns = zip(*([float(cell) / 100 for cell in row[1:]] for row in seeds), strict=True)
    assert table_row("guides.md", title, "`MomentsHead`") == [interval(x) for x in columns]


def test_host_time_of_blocks() -> None:
    with open(REPORTS / "benchmark" / "host_time.csv", newline="") as file:
        title, *rows = csv.reader(file)
    assert len(rows) == 7
    for name, *cells in rows:
        assert table_row("speed.md", " | ".join(title), name) == cells


@pytest.mark.parametrize("block", ["timm", "joint", "divided", "feature fixation"])
def test_core_before_and_after(block: str) -> None:
    """The page of the core has the figures of the page of speed."""
    after = table_row("speed.md", "block | us", block)
    cells = table_row("core.md", "block, before and after", block)
    counts = [cell.rpartition("→")[2].strip() for cell in cells[5:]]
    assert [*cells[2:4], *counts] == after


@pytest.mark.parametrize(
    "row", ["inference, plain", "inference, optimized", "training, plain", "training, optimized"]
)
def test_core_beside_other_projects(row: str) -> None:
    page = (REPORTS / "speed.md").read_text()
    cells = " | ".join(table_row("core.md", "`timesformer_b_k400`", row))
    assert f"| {row} | {cells} |" in page


def test_savings_of_passes() -> None:
    with open(REPORTS / "benchmark" / "passes.csv", newline="") as file:
        rows = {(row["pass"], row["way"]): row for row in csv.DictReader(file)}
    names = [name for name, way in rows if way == "pass"]
    assert len(names) > 10
    for name in names:
        plain, fast, before = (rows[name, way] for way in ("plain", "pass", "before: pass"))
        columns = ("GFLOP", "kept MiB", "operators")
        arrows = [f"{plain[n]} → {fast[n]}" if plain[n] else "-" for n in columns]
        quotient = float(fast["ms"]) / float(plain["ms"])
        expected = [*arrows, f"{quotient:.2f}", *(before[n] or "-" for n in columns)]
        assert table_row("speed.md", "saving", name) == expected
    together = rows["training", "pass"], rows["training", "before: pass"]
    assert len({(row["GFLOP"], row["kept MiB"]) for row in together}) == 1
