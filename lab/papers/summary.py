"""What was measured, beside what was published."""

import statistics
from collections.abc import Mapping, Sequence

from mmengine.config import Config
from scipy.stats import t as student
from tqdm import tqdm

from lab.papers.rows import PublishedRow
from mmvidformer.apis.complexity import Complexity, count
from mmvidformer.config import load_config, view_shape

SIZES = ("params", "macs")


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95% interval (Student's t) with at least two values."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values), student.ppf(0.975, len(values) - 1) * error


def interval(values: Sequence[float]) -> str:
    """Mean of a metric over seeds in percent, and half of its 95% interval."""
    if len(values) < 2:
        return f"{100 * values[0]:.1f}" if values else ""
    mean, half = mean_interval(values)
    return f"{round(100 * mean, 1) + 0:.1f} ± {100 * half:.1f}"  # + 0: no "-0.0"


def tabulate(
    rows: Sequence[PublishedRow],
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
    published: list[str] = []
    for row in rows:
        published += [key for key in row.published if key not in (*SIZES, *published)]
    measured_metrics = {
        metric for seeds in measured.values() for values in seeds for metric in values
    }
    metrics = {column: metric for column, metric in metrics.items() if metric in measured_metrics}
    columns = ["row", "", *published, *(f"{column} (here)" for column in metrics)]
    if sizes:
        columns += ["M params (paper)", "G MACs (paper)"]
    lines = []
    for row in tqdm(rows, unit="row", leave=False, disable=None):
        line = [row.name.rpartition("/")[2], row.title]
        line += [f"{row.published[key]:g}" if key in row.published else "" for key in published]
        seeds = measured.get(row.name) or []
        for metric in metrics.values():
            line.append(interval([values[metric] for values in seeds if metric in values]))
        if sizes:
            line += size_cells(row)
        lines.append(line)
    return columns, lines


def is_of_others(cfg: Config) -> bool:
    """Whether the backbone of a config is MMAction2's."""
    return not cfg.model.backbone.type.startswith("mmvidformer.")


def size_of(row: PublishedRow) -> Complexity | None:
    """Parameters and MACs of a row's model; None for a model of others."""
    if row.config is None:
        return None
    cfg = load_config(row.config, row.options)
    return None if is_of_others(cfg) else count(cfg, view_shape(cfg))


def size_cells(row: PublishedRow) -> list[str]:
    """Parameters in 10^6 and MACs in 10^9, with the published ones in parentheses."""
    size = size_of(row)
    counted = (
        ["", ""] if size is None else [f"{size.parameters / 1e6:.2f}", f"{size.macs / 1e9:.2f}"]
    )
    cells = []
    for key, value in zip(SIZES, counted, strict=True):
        paper = f"({row.published[key]:g})" if key in row.published else ""
        cells.append(f"{value} {paper}".strip())
    return cells
