"""Training and testing the rows of a paper's table, and what was measured beside the published."""

import contextlib
import ctypes
import json
import re
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import STDOUT, Popen, TimeoutExpired

from scipy.stats import t as student
from tqdm import tqdm

from mmvidformer.analysis.complexity import Complexity, count
from mmvidformer.config import load_config, view_shape
from mmvidformer.papers import Options, Row, Table

SIZES = ("params", "macs")
STEP = re.compile(r"Epoch\(\w+\)\s+(?:\[ *\d+\])?\[[ \d]+/\d+\]")  # in a line of MMEngine's log


def measure(
    table: Table, row: Row, seed: int, folder: Path, *, miniature: bool, procs: int, common: Options
) -> dict[str, float]:
    """Train and test a row with one seed, unless that is done, and return its metrics.

    A training run that was stopped is resumed. ``folder`` gets the logs ``train.log`` and
    ``test.log``, the checkpoints, and the metrics; the config lies beside it.

    Args:
        table: The row's table.
        row: The row.
        seed: Random seed.
        folder: Folder of this run.
        miniature: Whether to run the miniature.
        procs: Number of processes. If the batch is then not the recipe's, a line is printed.
        common: Overrides of all rows.

    Raises:
        ValueError: If the row cannot be run, or the folder has a run with other settings.
        ChildProcessError: If training or testing fails.
    """
    name, options = table.recipe(row, miniature)
    cfg = load_config(name, {**options, **common})
    cfg.num_processes = procs  # not read by a run; another number is another batch
    batch = procs * cfg.train_dataloader.batch_size
    wanted = (cfg.get("auto_scale_lr") or {}).get("base_batch_size", batch)
    if batch != wanted:
        tqdm.write(f"{row.name}: the batch of {procs} processes is {batch}, the recipe's {wanted}")
    config = folder.with_suffix(".py")  # a run writes its own, changed one into the folder
    folder.mkdir(parents=True, exist_ok=True)
    old = config.read_text(encoding="utf-8") if config.exists() else None
    cfg.dump(config)
    if old not in (None, config.read_text(encoding="utf-8")):
        config.write_text(old, encoding="utf-8")
        raise ValueError(f"{folder} has a run with other settings; use another --work-dir")
    if not (found := results(folder)):
        place = ["--work-dir", folder, *(["--procs", procs] if procs > 1 else [])]
        _run(folder / "train.log", "train", config, "--seed", seed, "--resume", *place)
        checkpoint = (folder / "last_checkpoint").read_text()
        _run(folder / "test.log", "test", config, checkpoint, *place)
        found = results(folder)
    return found


def results(folder: Path) -> dict[str, float]:
    """Metrics of the test in a run's folder; empty if it has not been tested."""
    files = sorted(folder.glob("test_*_*.json"))
    return json.loads(files[0].read_text())["metrics"] if files else {}


def generate(table: Table) -> None:
    """Generate the videos of a table's miniature, unless they are there.

    Raises:
        ChildProcessError: If that fails.
    """
    if table.miniature is not None:
        folder, *options = table.miniature.data.split()
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        _run(Path(f"{folder}.log"), "data", "generate", folder, *options)


def _run(log: Path, *arguments: object) -> None:
    """Run a command of ``mmvidformer`` with its output in a file, and show how far it has come."""
    command = [sys.executable, "-m", "mmvidformer", *map(str, arguments)]
    start = _end_with_parent if sys.platform == "linux" else None
    show = dict(desc=str(log), bar_format="{desc} {postfix}", leave=False, disable=None)
    with open(log, "a") as out, tqdm(**show) as bar:
        with Popen(command, stdout=out, stderr=STDOUT, preexec_fn=start) as process:
            try:
                while process.poll() is None:
                    with contextlib.suppress(TimeoutExpired):
                        process.wait(2)
                    bar.set_postfix_str((STEP.findall(log.read_text()) or [""])[-1])
            finally:
                process.terminate()
    if process.returncode:
        end = log.read_text().strip().splitlines()[-1:] or [""]
        raise ChildProcessError(f"{' '.join(map(str, arguments[:2]))} failed: {end[0]} (see {log})")


def _end_with_parent() -> None:
    """Let the system end this process if its parent is killed, or a second run would meet it."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def interval(values: Sequence[float]) -> str:
    """Mean of a metric over seeds in percent, and half of its 95% interval (Student's t)."""
    number = len(values)
    if number < 2:
        return "".join(f"{100 * value:.1f}" for value in values)
    half = student.ppf(0.975, number - 1) * statistics.stdev(values) / number**0.5
    return f"{100 * statistics.mean(values):.1f} ± {100 * half:.1f}"


def tabulate(
    rows: Sequence[Row],
    measured: Mapping[str, Sequence[Mapping[str, float]]],
    metrics: Mapping[str, str],
    sizes: bool,
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table.

    Args:
        rows: Rows to show.
        measured: Metrics of each seed, by the name of the row.
        metrics: Metric of each column of the measured values.
        sizes: Whether to count parameters and MACs.
    """
    published = dict.fromkeys(k for row in rows for k in row.published if k not in SIZES)
    metrics = {
        column: metric
        for column, metric in metrics.items()
        if any(metric in one for values in measured.values() for one in values)
    }
    columns = ["row", "", *published, *(f"{column} (here)" for column in metrics)]
    if sizes:
        columns += ["M params (paper)", "G MACs (paper)"]
    lines = []
    for row in tqdm(rows, unit="row", leave=False, disable=None):
        line = [row.name.rpartition("/")[2], row.title]
        line += [f"{row.published[k]:g}" if k in row.published else "" for k in published]
        values = measured.get(row.name) or []
        line += [interval([one[m] for one in values if m in one]) for m in metrics.values()]
        lines.append(line + (size_cells(row) if sizes else []))
    return columns, lines


def size_of(row: Row) -> Complexity | None:
    """Parameters and MACs of a row's model; None for a model of others."""
    if row.config is None:
        return None
    cfg = load_config(row.config, row.options)
    return count(cfg, view_shape(cfg))


def size_cells(row: Row) -> list[str]:
    """Parameters in 10^6 and MACs in 10^9, with the published ones in parentheses."""
    size, cells = size_of(row), []
    counted = (None, None) if size is None else (size.parameters / 1e6, size.macs / 1e9)
    for key, value in zip(SIZES, counted, strict=True):
        cell = "" if value is None else f"{value:.2f}"
        paper = f"({row.published[key]:g})" if key in row.published else ""
        cells.append(f"{cell} {paper}".strip())
    return cells
