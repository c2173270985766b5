"""Plots: points in the plane by class; cost by part, by the size of the clip, by its tokens."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure


def draw_classes(
    points: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str] | None = None,
    title: str = "",
    most: int = 20,
) -> Figure:
    """Draw points coloured by class, with a legend.

    Args:
        points: Places (N, 2).
        labels: Classes (N,).
        names: Names of the classes, by number; default: the numbers.
        title: Heading.
        most: Classes that get a colour; of more, the commonest, and the others are grey.

    Returns:
        The figure.
    """
    classes, counts = np.unique(labels, return_counts=True)
    commonest = np.sort(classes[np.argsort(-counts, kind="stable")[:most]])
    colours = colormaps["tab10" if len(commonest) <= 10 else "tab20"].colors
    figure = Figure(figsize=(8, 6.5), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xticks=[], yticks=[], aspect="equal")
    rest = ~np.isin(labels, commonest)
    if rest.any():
        name = f"{len(classes) - len(commonest)} other classes"
        axes.scatter(*points[rest].T, s=10, color="0.8", label=name)
    for number, label in enumerate(commonest):
        name = names[label] if names else f"class {label}"
        colour = colours[number % len(colours)]
        axes.scatter(*points[labels == label].T, s=18, color=colour, label=name)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9, markerscale=1.5)
    return figure


def draw_costs(curves: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Draw curves side by side, as TimeSformer's figure 3.

    Args:
        curves: For each horizontal axis, for each model, its cost in 10^12 multiply-accumulates
            by the size on this axis.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(5 * len(curves), 4), dpi=120, layout="constrained")
    for axes, (axis, models) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
        for name, costs in models.items():
            axes.plot(list(costs), list(costs.values()), marker="o", label=name)
            axes.set_xticks(list(costs))
        axes.set(xlabel=axis, ylabel="TMACs of one view (papers: TFLOPs)", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw_growth(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw costs against tokens on logarithmic axes, a panel for each scheme and cost.

    Args:
        panels: By what a panel shows, with its unit, the (tokens, cost) points of each kernel.

    Returns:
        The figure, three panels a row.
    """
    rows = max(-(-len(panels) // 3), 1)
    figure = Figure(figsize=(14, 4 * rows), dpi=100, layout="constrained")
    grid = figure.subplots(rows, 3, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (title, kernels) in zip(grid.flat, panels.items(), strict=False):
        for name, points in kernels.items():
            axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=4, label=name)
        axes.set(xscale="log", yscale="log", xlabel="tokens of a clip", ylabel=title)
        axes.grid(alpha=0.3, which="both")
        if kernels:
            axes.legend(fontsize=8)
    return figure


def draw_minutes(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw what was measured in each minute of a stream, from zero up.

    Args:
        panels: By what a panel shows, with its unit, the values of each curve by minute.

    Returns:
        The figure, a panel beside the other.
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


def draw_parts(parts: Mapping[str, float], unit: str, title: str = "") -> Figure:
    """Draw what each part costs as a bar, from top to bottom.

    Args:
        parts: Cost of each part, by name.
        unit: Of the costs.
        title: Heading.
    """
    figure = Figure(figsize=(7, 1 + 0.3 * len(parts)), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=unit)
    bars = axes.barh(range(len(parts)), list(parts.values()))
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.set_yticks(range(len(parts)), list(parts), fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    return figure


def draw_bars(panels: Mapping[str, Mapping[str, tuple[float, float]]], unit: str) -> Figure:
    """Draw a bar for each contestant, with a mark where its floor is, a panel for each contest.

    Args:
        panels: By title, for each contestant its value and its floor.
        unit: Of the values.

    Returns:
        The figure, two panels a row where there are several.
    """
    columns = min(max(len(panels), 1), 2)
    rows = max(-(-len(panels) // columns), 1)
    figure = Figure(figsize=(6.5 * columns, 2.6 * rows), dpi=100, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (title, bars) in zip(grid.flat, panels.items(), strict=False):
        names = list(bars)
        values, floors = zip(*bars.values(), strict=True)
        axes.barh(names, values, color="tab:blue", alpha=0.7)
        axes.scatter(floors, names, marker="|", s=300, color="tab:red", zorder=3, label="floor")
        axes.invert_yaxis()
        axes.set(title=title, xlabel=unit, xlim=(0, None))
        axes.legend(fontsize=8, loc="lower right")
    return figure


def draw_timeline(
    times: np.ndarray,
    probabilities: np.ndarray,
    names: Sequence[str],
    title: str = "",
    most: int = 8,
) -> Figure:
    """Draw the probabilities of classes over the time of a video.

    Args:
        times: Begin and end of each window in seconds (N, 2).
        probabilities: Of each window (N, classes).
        names: Names of the classes.
        title: Heading.
        most: Classes that are drawn: those with the highest peaks.

    Returns:
        The figure; a point stands in the middle of its window.
    """
    drawn = np.sort(np.argsort(-probabilities.max(axis=0), kind="stable")[:most])
    colours = colormaps["tab10"].colors
    figure = Figure(figsize=(10, 3.8), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="seconds", ylabel="probability")
    for number, label in enumerate(drawn):
        colour = colours[number % len(colours)]
        axes.plot(
            *(times.mean(axis=1), probabilities[:, label]),
            marker="o", markersize=4, color=colour, label=names[label],
        )  # fmt: skip
    axes.set(xlim=(times.min(), times.max()), ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9)
    return figure
