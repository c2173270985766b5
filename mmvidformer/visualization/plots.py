"""Plots: points by class, probabilities over time."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from mmvidformer.apis import Prediction


def draw_classes(
    points: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str = "", most: int = 20
) -> Figure:
    """Draw points (N, 2) colored by class (N,), with a legend.

    The ``most`` frequent classes have colors and names, the others are gray.
    """
    classes, counts = np.unique(labels, return_counts=True)
    common = np.sort(classes[np.argsort(-counts, kind="stable")[:most]])
    colors = colormaps["tab10" if len(common) <= 10 else "tab20"].colors
    figure = Figure(figsize=(8, 6.5), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xticks=[], yticks=[], aspect="equal")
    if len(common) < len(classes):
        name = f"{len(classes) - len(common)} other classes"
        axes.scatter(*points[~np.isin(labels, common)].T, s=10, color="0.8", label=name)
    for i, label in enumerate(common):
        color = colors[i % len(colors)]
        axes.scatter(*points[labels == label].T, s=18, color=color, label=names[label])
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9, markerscale=1.5)
    return figure


def draw_timeline(predictions: Sequence[Prediction], title: str = "", most: int = 8) -> Figure:
    """Draw the class probabilities of a video's windows over time, for the first task.

    A point is at the middle of its window. Drawn are the ``most`` classes with the highest peaks.
    """
    task = next(iter(predictions[0].scores))
    probabilities = np.stack([prediction.probabilities[task] for prediction in predictions])
    times = np.array([prediction.seconds for prediction in predictions])
    drawn = np.sort(np.argsort(-probabilities.max(axis=0), kind="stable")[:most])
    figure = Figure(figsize=(10, 3.8), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="seconds", ylabel="probability")
    for label in drawn:
        name = predictions[0].names[task][label]
        axes.plot(times.mean(axis=1), probabilities[:, label], ".-", markersize=8, label=name)
    axes.set(xlim=(times.min(), times.max()), ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9)
    return figure
