"""Plots: points in the plane by class; cost by part, by the size of the clip, by its tokens."""

from collections.abc import Mapping, Sequence

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
