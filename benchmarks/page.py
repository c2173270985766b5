"""Files with the results of ``python -m benchmarks.models``, and pages with tables made from them.

The tool writes the blocks between these marks. Names are paths relative to the page, without
``.csv``, ``.json`` or ``.png``:

    <!-- baselines: benchmark/cpu benchmark/cpu_training -->
    time and memory of the baselines relative to mmvidformer
    <!-- end of benchmark -->

    <!-- gpu: benchmark/gpu -->
    results of tools/gpu_check.sh in this folder, or that there are none
    <!-- end of benchmark -->
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.baselines import OPTIMIZED, OURS
from benchmarks.compare import Result
from mmvidformer.errors import UserError

COLUMNS = ("config", "pass", "model", "ms", "CPU ms", "least CPU ms", "time / ours",
           "CPU time / ours", "clips/s", "peak MiB", "G MACs", "floor ms, matmul", "floor ms, copy",
           "fraction of peak matmul")  # fmt: skip
BLOCK = re.compile(
    r"(<!-- (baselines|gpu): ([^>]+) -->\n).*?(<!-- end of benchmark -->)", re.DOTALL
)


def row_of(config: str, result: Result) -> list[str]:
    """Return the columns of a result."""
    peak = "not measured" if result.peak is None else f"{result.peak / 2**20:.1f}"
    return [
        config,
        result.phase,
        result.model,
        f"{result.seconds * 1000:.1f}",
        f"{result.cpu_seconds * 1000:.1f}",
        f"{result.least_cpu_seconds * 1000:.1f}",
        f"{result.ratio:.3f}",
        f"{result.cpu_ratio:.3f}",
        f"{result.clips_per_second:.3f}",
        peak,
        f"{result.macs / 1e9:.2f}",
        f"{result.matmul_floor * 1000:.1f}",
        f"{result.copy_floor * 1000:.1f}",
        f"{result.matmul_floor / result.seconds:.3f}",
    ]


def write_results(out: Path, rows: Sequence[Sequence[str]], about: Mapping[str, str]) -> None:
    """Write the rows to ``<out>.csv`` and the description ``about`` to ``<out>.json``."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{out}.csv", "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    Path(f"{out}.json").write_text(json.dumps(dict(about), indent=2) + "\n")


def baselines_block(folder: Path, names: Sequence[str]) -> str:
    """Return the baselines' time and memory relative to mmvidformer's plain and optimized model."""
    measured: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for name in names:
        header, *lines = _read(folder, name)
        for line in lines:
            row = dict(zip(header, line, strict=True))
            measured.setdefault((row["config"], row["pass"]), {})[row["model"]] = row
    names_of = dict.fromkeys(name for entries in measured.values() for name in entries)
    baselines = [name for name in names_of if name not in (OURS, OPTIMIZED)]
    rows = [["config", "pass", "ms of mmvidformer", *baselines]]
    for (config, phase), entries in measured.items():
        for name, how in ((OURS, "plain"), (OPTIMIZED, "optimized")):
            if name in entries:
                ours = entries[name]
                cells = [_relative(entries[b], ours) if b in entries else "" for b in baselines]
                rows.append([f"`{config}`", f"{phase}, {how}", ours["ms"], *cells])
    return "\n".join([*_table(rows), ""])


def gpu_block(folder: Path, name: str) -> str:
    """Return the results of ``benchmarks.gpu_check`` in a folder, as Markdown."""
    file = folder / name / "gpu_check.json"
    if not file.is_file():
        return "Nothing has been measured on a GPU yet.\n"
    about = json.loads(file.read_text())
    parts = about.pop("parts")
    lines = [f"- {key}: {value}" for key, value in about.items()]
    rows = [["part", "status", "s", "shows", "reason"]]
    rows += [
        [p["part"], p["status"], f"{p['seconds']:.0f}", p["shows"], p["reason"].replace("|", "/")]
        for p in parts
    ]
    lines += ["", *_table(rows)]
    for part in parts:
        if part["rows"]:
            table = [list(part["rows"][0]), *(list(row.values()) for row in part["rows"])]
            lines += ["", f"{part['part']}:", "", *_table(table)]
    if (folder / name / "gpu_check.png").is_file():
        lines += ["", f"![TFLOP/s]({name}/gpu_check.png)"]
    return "\n".join([*lines, ""])


def _relative(baseline: Mapping[str, str], ours: Mapping[str, str]) -> str:
    # The file has times relative to one model of ours, from the same rounds.
    text = f"{float(baseline['time / ours']) / float(ours['time / ours']):.2f} x time"
    if "not measured" in (baseline["peak MiB"], ours["peak MiB"]):
        return text
    return f"{text}, {float(baseline['peak MiB']) / float(ours['peak MiB']):.2f} x memory"


def _read(folder: Path, name: str) -> list[list[str]]:
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.reader(file))


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    header, *others = rows
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *others)]


def fill_page(page: str, folder: Path) -> str:
    """Return a page with all blocks updated.

    Args:
        page: Text of the page.
        folder: Folder of the page.

    Raises:
        UserError: If the page has no marks.
        FileNotFoundError: If the files of a mark do not exist.
    """
    if not BLOCK.search(page):
        raise UserError(
            "the page must contain a mark such as '<!-- baselines: benchmark/cpu -->', got none"
        )

    def fill(mark: re.Match) -> str:
        names = mark[3].split()
        text = (
            baselines_block(folder, names) if mark[2] == "baselines" else gpu_block(folder, *names)
        )
        return mark[1] + text + mark[4]

    return BLOCK.sub(fill, page)
