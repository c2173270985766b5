"""Results of the benchmark as files, and the page that quotes them.

A page holds, for each name of files, a pair of marks with a block between that is written from
``<name>.csv`` and ``<name>.json`` and from nothing else:

    <!-- benchmark: cpu -->
    ...
    <!-- end of benchmark -->
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmvidformer.analysis.contest import Result

COLUMNS = ("config", "pass", "contestant", "ms", "processor ms", "x ours", "x ours, processor",
           "clips/s", "peak MiB", "G MACs", "floor ms, products", "floor ms, bytes")  # fmt: skip
BLOCK = re.compile(r"(<!-- benchmark: (\S+) -->\n).*?(<!-- end of benchmark -->)", re.DOTALL)


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


def block_of(out: Path) -> str:
    """What a page says about the files of a name: how it was measured, table, picture."""
    with open(f"{out}.csv", newline="") as file:
        header, *rows = csv.reader(file)
    about = json.loads(Path(f"{out}.json").read_text())
    lines = [f"- {name}: {value}" for name, value in about.items() if name != "command"]
    lines += ["", "```bash", wrap_command(about["command"]), "```", ""]
    lines += [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
    return "\n".join([*lines, "", f"![{out.name}](benchmark/{out.name}.png)", ""])


def fill_page(page: str, folder: Path) -> str:
    """Write each block of a page anew from the files in a folder.

    Raises:
        ValueError: If the page has no marks.
        FileNotFoundError: If there are no files of a name.
    """
    if not BLOCK.search(page):
        raise ValueError("the page has no mark such as '<!-- benchmark: NAME -->' to write below")
    return BLOCK.sub(lambda found: found[1] + block_of(folder / found[2]) + found[3], page)
