"""Results of the benchmark as files, and the pages that quote them.

A page holds marks with blocks between that are written from files and from nothing else. Names are
paths from the page's folder, without ending (``.csv``, ``.json``, ``.png``):

    <!-- benchmark: benchmark/cpu -->
    all columns, how they were measured, the picture
    <!-- end of benchmark -->

    <!-- against peers: benchmark/cpu benchmark/cpu_training -->
    time and memory of the peers over ours
    <!-- end of benchmark -->
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.baselines import OPTIMISED, OURS
from benchmarks.compare import Result

COLUMNS = ("config", "pass", "contestant", "ms", "processor ms", "x ours", "x ours, processor",
           "clips/s", "peak MiB", "G MACs", "floor ms, products", "floor ms, bytes",
           "of the ceiling")  # fmt: skip
BLOCK = re.compile(
    r"(<!-- (benchmark|against peers): ([^>]+) -->\n).*?(<!-- end of benchmark -->)", re.DOTALL
)


def row_of(config: str, result: Result) -> list[str]:
    """Columns of a result."""
    peak = "not measured" if result.peak is None else f"{result.peak / 2**20:.1f}"
    return [
        config,
        result.kind,
        result.contestant,
        f"{result.seconds * 1000:.1f}",
        f"{result.busy * 1000:.1f}",
        f"{result.ratio:.3f}",
        f"{result.busy_ratio:.3f}",
        f"{result.clips_per_second:.3f}",
        peak,
        f"{result.macs / 1e9:.2f}",
        f"{result.product_floor * 1000:.1f}",
        f"{result.copy_floor * 1000:.1f}",
        f"{result.product_floor / result.seconds:.3f}",
    ]


def write_results(out: Path, rows: Sequence[Sequence[str]], about: Mapping[str, str]) -> None:
    """Write the rows to ``<out>.csv`` and how they were measured to ``<out>.json``."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{out}.csv", "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    Path(f"{out}.json").write_text(json.dumps(dict(about), indent=2) + "\n")


def wrap_command(command: str, width: int = 96) -> str:
    """Break a command before its options, so that no line is wider than a page."""
    lines = [""]
    for part in command.replace(" --", "\n--").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines[-1] += " \\"
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)


def block_of(folder: Path, name: str) -> str:
    """What a page says about the files of a name: how it was measured, table, picture.

    A column that has one value in all rows becomes a line.
    """
    header, *rows = _read(folder, name)
    about = json.loads((folder / f"{name}.json").read_text())
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    same = {key for key, values in columns.items() if len(rows) > 1 and len(set(values)) == 1}
    about = {key: columns[key][0] for key in header if key in same} | about
    columns = {key: values for key, values in columns.items() if key not in same}
    lines = [f"- {key}: {value}" for key, value in about.items() if key != "command"]
    lines += ["", "```bash", wrap_command(about["command"]), "```", ""]
    lines += _table([list(columns), *zip(*columns.values(), strict=True)])
    return "\n".join([*lines, "", f"![{Path(name).name}]({name}.png)", ""])


def peers_block(folder: Path, names: Sequence[str]) -> str:
    """Time and memory of the peers over ours, of the optimised model where it took part."""
    found: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for name in names:
        header, *lines = _read(folder, name)
        for line in lines:
            row = dict(zip(header, line, strict=True))
            found.setdefault((row["config"], row["pass"]), {})[row["contestant"]] = row
    names_of = dict.fromkeys(name for entries in found.values() for name in entries)
    peers = [name for name in names_of if name not in (OURS, OPTIMISED)]
    rows = [["config", "pass", "ms of ours", *peers]]
    for (config, kind), entries in found.items():
        ours = entries.get(OPTIMISED, entries[OURS])
        how = f"{kind}, optimised" if OPTIMISED in entries else kind
        cells = [_against(entries[peer], ours) if peer in entries else "" for peer in peers]
        rows.append([f"`{config}`", how, ours["ms"], *cells])
    return "\n".join([*_table(rows), ""])


def _against(peer: Mapping[str, str], ours: Mapping[str, str]) -> str:
    text = f"{float(peer['x ours']):.2f} x time"
    if "not measured" in (peer["peak MiB"], ours["peak MiB"]):
        return text
    return f"{text}, {float(peer['peak MiB']) / float(ours['peak MiB']):.2f} x memory"


def _read(folder: Path, name: str) -> list[list[str]]:
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.reader(file))


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    header, *others = rows
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *others)]


def fill_page(page: str, folder: Path) -> str:
    """Write each block of a page anew from files.

    Args:
        page: Its text.
        folder: Where it lies.

    Raises:
        ValueError: If the page has no marks.
        FileNotFoundError: If there are no files of a name.
    """
    if not BLOCK.search(page):
        raise ValueError(
            "the page has no mark such as '<!-- benchmark: benchmark/cpu -->' to write below"
        )

    def fill(mark: re.Match) -> str:
        names = mark[3].split()
        full = mark[2] == "benchmark"
        text = block_of(folder, *names) if full else peers_block(folder, names)
        return mark[1] + text + mark[4]

    return BLOCK.sub(fill, page)
