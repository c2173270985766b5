"""Pictures of a test's scores: confusion matrix, accuracy by class, accuracy by views."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from mmvidformer.visualization.scores import most_confused


def draw_confusion(
    counts: np.ndarray, names: Sequence[str], title: str = "", most: int = 30
) -> Figure:
    """Draw a confusion matrix, each row in shares of its class.

    Of more than ``most`` classes those that are confused most with each other are shown; a last
    column holds what went to any other.

    Args:
        counts: Videos by class (rows) and predicted class (columns).
        names: Names of the classes.
        title: Heading.
        most: Classes that are shown.
    """
    chosen = most_confused(counts, most)
    shown, labels = counts[np.ix_(chosen, chosen)], [names[i] for i in chosen]
    columns = list(labels)
    if len(chosen) < len(counts):
        rest = counts[chosen].sum(axis=1) - shown.sum(axis=1)
        shown, columns = np.column_stack([shown, rest]), [*labels, "any other"]
        title = f"{title}\n{len(chosen)} most confused of {len(counts)} classes".strip()
    shares = shown / np.maximum(counts[chosen].sum(axis=1, keepdims=True), 1)
    side = min(max(4.5, 0.36 * len(columns) + 2.5), 18)
    figure = Figure(figsize=(side + 1, side), dpi=110, layout="constrained")
    axes = figure.add_subplot(xlabel="predicted", ylabel="class of the video")
    axes.set_title(title, fontsize=10)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    size = 9 if len(columns) <= 12 else 7
    if len(columns) > len(labels):
        axes.axvline(len(labels) - 0.5, color="0.5", linewidth=1)
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=size)
    axes.set_yticks(range(len(labels)), labels, fontsize=size)
    if len(columns) <= 12:
        for (row, column), count in np.ndenumerate(shown):
            if count:
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, count, ha="center", va="center", color=colour, fontsize=9)
    figure.colorbar(image, ax=axes, label="share of the class", fraction=0.05, pad=0.02)
    return figure


def draw_class_accuracy(
    counts: np.ndarray, names: Sequence[str], title: str = "", most: int = 30
) -> Figure:
    """Draw the accuracy of each class, the worst first, with its number of videos.

    Of more than ``most`` classes the worst ones get a bar, and a second panel shows all of them in
    order. Classes without a video are left out.

    Args:
        counts: Videos by class (rows) and predicted class (columns).
        names: Names of the classes.
        title: Heading.
        most: Bars.
    """
    videos = counts.sum(axis=1)
    seen = np.flatnonzero(videos)
    accuracy = counts.diagonal()[seen] / videos[seen]
    order = np.argsort(accuracy, kind="stable")
    worst = order[:most]
    panels = 1 if len(worst) == len(seen) else 2
    size = (7 if panels == 1 else 11, max(2.5, 1.2 + 0.26 * len(worst)))
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=10)
    left, *right = figure.subplots(1, panels, squeeze=False)[0]
    bars = left.barh(range(len(worst)), 100 * accuracy[worst], color="C0")
    texts = [f"{100 * accuracy[i]:.0f}% of {videos[seen[i]]}" for i in worst]
    paper = dict(facecolor="white", edgecolor="none", pad=0.5)  # the line of the mean ends at it
    left.bar_label(bars, texts, padding=3, fontsize=8, bbox=paper, zorder=3)
    left.set_yticks(range(len(worst)), [names[seen[i]] for i in worst], fontsize=8)
    left.invert_yaxis()
    left.margins(y=0.02)
    mean = 100 * accuracy.mean()
    for axes, line in ((left, left.axvline), *((r, r.axhline) for r in right)):
        line(mean, color="C1", linestyle="--", label=f"mean of {len(seen)} classes: {mean:.1f}%")
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    left.set(xlabel="accuracy in %", xlim=(0, 125), xticks=range(0, 101, 20))
    for axes in right:
        left.set_title(f"the {len(worst)} worst classes", fontsize=9)
        axes.plot(np.arange(1, len(seen) + 1), 100 * accuracy[order])
        axes.set(xlabel="classes, the worst first", ylabel="accuracy in %", ylim=(0, 103))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower right", fontsize=8)
    return figure


def draw_views(accuracy: Mapping[int, Mapping[int, float]], title: str = "") -> Figure:
    """Draw top-1 accuracy against the number of clips, a curve for each number of crops.

    Args:
        accuracy: For each number of crops, the accuracy by the number of clips.
        title: Heading.
    """
    figure = Figure(figsize=(6, 4), dpi=110, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="temporal clips of a video")
    for crops, curve in accuracy.items():
        label = f"{crops} crop{'s' if crops > 1 else ''}"
        axes.plot(list(curve), [100 * value for value in curve.values()], marker="o", label=label)
    axes.set(ylabel="top-1 accuracy in %", xticks=sorted({k for c in accuracy.values() for k in c}))
    low, high = axes.get_ylim()
    if high - low < 10:  # a video or two more or less shall not look like much
        axes.set_ylim((low + high) / 2 - 5, (low + high) / 2 + 5)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
