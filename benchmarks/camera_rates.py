"""Rates of camera motion beside those of tracking; intervals (95%) are by video."""

from collections.abc import Callable, Sequence

import numpy as np

from lab.synthetic.camera.paths import THRESHOLD
from mmvidformer.models.camera_head import PER_SPEED
from mmvidformer.tasks.camera_motion import RATES, UNITS

TRACKING = "tracking"
DRAWS = 10_000

Row = dict[str, str]


def read_rates(rows: Sequence[Row], name: str, rate: str) -> np.ndarray:
    """Read a rate of a method from rows (N,)."""
    return np.array([float(row[f"{name}: {rate}"]) for row in rows])


def interval(
    rows: Sequence[Row], terms: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> tuple[float, float]:
    """Draw the videos of rows again and again: the 95% interval of a statistic.

    Args:
        rows: Rows of windows.
        terms: Numbers (rows, K) whose sums it takes.
        statistic: Function of sums (..., K).
    """
    numbers = np.unique([row["video"] for row in rows], return_inverse=True)[1]
    sums = np.zeros((numbers.max() + 1, terms.shape[1]))
    np.add.at(sums, numbers, terms)
    drawn = np.random.default_rng(0).integers(len(sums), size=(DRAWS, len(sums)))
    low, high = np.nanpercentile(statistic(sums[drawn].sum(axis=1)), [2.5, 97.5])
    return float(low), float(high)


def mean_of_sums(sums: np.ndarray) -> np.ndarray:
    """Return a quotient of sums (..., 2); with ones below, the mean of numbers."""
    return sums[..., 0] / sums[..., 1]


def correlation_of_sums(sums: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation, from sums (..., 6) of ``correlation_terms``, or NaN."""
    ones, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore"):  # one number, drawn again and again
        return (ones * xy - x * y) / np.sqrt((ones * xx - x * x) * (ones * yy - y * y))


def correlation_terms(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what must be summed for a correlation: (N, 6)."""
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def mean_error(rows: Sequence[Row], method: str, rate: str) -> str:
    """Describe the mean absolute difference from tracking: ``'0.021 (0.015-0.030)'``."""
    errors = np.abs(read_rates(rows, method, rate) - read_rates(rows, TRACKING, rate))
    low, high = interval(rows, np.stack([errors, np.ones_like(errors)], axis=1), mean_of_sums)
    return f"{errors.mean():.2g} ({low:.2g}-{high:.2g})"


def correlation(rows: Sequence[Row], method: str, rate: str) -> str:
    """Describe the correlation with tracking: ``'0.81 (0.70-0.90)'``."""
    terms = correlation_terms(*(read_rates(rows, name, rate) for name in (method, TRACKING)))
    low, high = interval(rows, terms, correlation_of_sums)
    return f"{correlation_of_sums(terms.sum(axis=0)):.2f} ({low:.2f}-{high:.2f})"


def said_share(rows: Sequence[Row], method: str, rate: str) -> str:
    """Describe the sum of a rate, in the direction of tracking, by that of tracking."""
    said, tracked = (read_rates(rows, name, rate) for name in (method, TRACKING))
    terms = np.stack([said * np.sign(tracked), np.abs(tracked)], axis=1)
    low, high = interval(rows, terms, mean_of_sums)
    return f"{mean_of_sums(terms.sum(axis=0)):.2f} ({low:.2f}-{high:.2f})"


def rates_table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Format the errors of the rates, and the correlation of the shake, in Markdown."""
    columns = ["mean error", "mean by tracking", *names]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for rate, unit in zip(RATES, UNITS, strict=True):
        size = f"{np.abs(read_rates(rows, TRACKING, rate)).mean():.2g}"
        cells = [mean_error(rows, name, rate) for name in names]
        lines.append(f"| {rate}, {unit} | {size} | {' | '.join(cells)} |")
    cells = [correlation(rows, name, RATES[-1]) for name in names]
    lines.append(f"| {RATES[-1]}, correlation | | {' | '.join(cells)} |")
    return "\n".join(lines)


def shares_table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Format how much of a rate is said where tracking sees a motion, in Markdown."""
    columns = ["said / tracked", *names, "windows", "videos"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for rate, per_speed in zip(RATES, PER_SPEED, strict=False):  # the shake has no direction
        speeds = np.abs(read_rates(rows, TRACKING, rate)) / per_speed
        moving = [row for row, speed in zip(rows, speeds, strict=True) if speed >= THRESHOLD]
        if moving:
            cells = [said_share(moving, name, rate) for name in names]
            videos = len({row["video"] for row in moving})
            lines.append(f"| {rate} | {' | '.join(cells)} | {len(moving)} | {videos} |")
    return "\n".join(lines)
