"""Plots of costs: by the size of a clip, by its tokens, by minute of a stream, by model."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure


def draw_costs(curves: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Draw curves side by side, as in TimeSformer's figure 3.

    Args:
        curves: For each horizontal axis and each model, the cost in 10^12 MACs by the size on
            this axis.
    """
    figure = Figure(figsize=(5 * len(curves), 4), dpi=120, layout="constrained")
    for axes, (axis, models) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
        for name, costs in models.items():
            axes.plot(list(costs), list(costs.values()), marker="o", label=name)
            axes.set_xticks(list(costs))
        axes.set(xlabel=axis, ylabel="TMACs per view (in papers: TFLOPs)", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw_growth(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw costs against tokens on logarithmic axes, three panels per row.

    Args:
        panels: By title with unit, the (tokens, cost) points of each kernel.
    """
    rows = max(-(-len(panels) // 3), 1)
    figure = Figure(figsize=(14, 4 * rows), dpi=100, layout="constrained")
    grid = figure.subplots(rows, 3, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (title, kernels) in zip(grid.flat, panels.items(), strict=False):
        for name, points in kernels.items():
            axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=4, label=name)
        axes.set(xscale="log", yscale="log", xlabel="tokens per clip", ylabel=title)
        axes.grid(alpha=0.3, which="both")
        if kernels:
            axes.legend(fontsize=8)
    return figure


def draw_minutes(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw what was measured in each minute of a stream, one panel beside the other.

    Args:
        panels: By title with unit, the values of each curve by minute.
    """
    figure = Figure(figsize=(5 * len(panels), 3.6), dpi=110, layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, curves) in zip(grid, panels.items(), strict=True):
        for (name, values), line in zip(curves.items(), cycle(("-", "--"))):  # they may coincide
            minutes = range(1, len(values) + 1)
            axes.plot(minutes, values, line, marker="o", markersize=4, label=name)
        top = 1.2 * max(max(values) for values in curves.values())
        axes.set(xlabel="minute of the stream", ylabel=title, ylim=(0, top), xticks=minutes)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw_losses(losses: Mapping[str, Sequence[Sequence[float]]], chance: float) -> Figure:
    """Draw how losses fall with the share of the training that is done, the mean of runs.

    Args:
        losses: By model, those of the steps of each run.
        chance: The loss of equal probabilities.
    """
    figure = Figure(figsize=(6, 3.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    shares = np.linspace(0.05, 1, 20)
    for model, runs in losses.items():
        means = []
        for run in runs:
            parts = np.array_split(np.asarray(run), min(len(shares), len(run)))
            ends = np.linspace(1 / len(parts), 1, len(parts))
            means.append(np.interp(shares, ends, [part.mean() for part in parts]))
        axes.plot(100 * shares, np.mean(means, axis=0), label=f"{model}, {len(runs)} folds")
    axes.axhline(chance, color="gray", linestyle=":", label="equal probabilities")
    axes.set(xlabel="share of the training, %", ylabel="training loss", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def draw_bars(
    panels: Mapping[str, Mapping[str, tuple[float, float]]], unit: str, mark: str = "floor"
) -> Figure:
    """Draw a bar per model with a mark at its bound, two panels per row.

    Args:
        panels: By title, the value and the bound of each model.
        unit: Unit of the values.
        mark: Name of the bound in the legend.
    """
    columns = min(max(len(panels), 1), 2)
    rows = max(-(-len(panels) // columns), 1)
    figure = Figure(figsize=(6.5 * columns, 2.6 * rows), dpi=100, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (title, bars) in zip(grid.flat, panels.items(), strict=False):
        names = list(bars)
        values, bounds = zip(*bars.values(), strict=True)
        axes.barh(names, values, color="tab:blue", alpha=0.7)
        axes.scatter(bounds, names, marker="|", s=300, color="tab:red", zorder=3, label=mark)
        axes.invert_yaxis()
        axes.set(title=title, xlabel=unit, xlim=(0, None))
        axes.legend(fontsize=8, loc="lower right")
    return figure
