"""Scores of a test, and pictures and a table of its errors."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix

from mmvidformer.errors import UserError
from mmvidformer.sinks.figures import without_formulas
from mmvidformer.storage.errors import refuse


class Scores(NamedTuple):
    """What ``test --dump`` wrote of N videos.

    Attributes:
        values: (N, classes).
        labels: (N,).
        classes: Their names. None: the file has none for these classes.
        videos: Files (N,). None: the file does not have them.
    """

    values: np.ndarray
    labels: np.ndarray
    classes: list[str] | None
    videos: np.ndarray | None


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read a file of ``test --dump``; a ``UserError`` if it is none, or scores are no numbers."""
    wanted = "scores must be an .npz of mmvidformer test --dump FILE.npz"
    if Path(path).suffix != ".npz":
        raise UserError(f"{wanted}, got {path}")
    with (
        refuse(f"{wanted}, but {path} is none", with_reason=True),
        np.load(path, allow_pickle=False) as file,
    ):
        arrays: dict[str, np.ndarray] = dict(file)
    rows = arrays.get("videos", arrays.get("labels", np.empty(0)))
    is_good = ~arrays.setdefault("bad_videos", np.zeros(len(rows), bool))
    for name in [name for name in arrays if name.startswith("scores")]:
        scores = arrays[name][is_good]
        is_wrong = ~np.isfinite(scores).all(axis=tuple(range(1, scores.ndim)))
        if is_wrong.any():
            raise UserError(f"{path}: {name} of {is_wrong.sum()} videos are no numbers")
    return arrays


def list_tasks(arrays: Mapping[str, np.ndarray]) -> list[str | None]:
    """Return the tasks of the head that a file has; None is a single one."""
    tasks = [name.removeprefix("scores_") for name in arrays if name.startswith("scores_")]
    return [*tasks] or [None]


def classes_of(
    arrays: Mapping[str, np.ndarray], task: str | None = None
) -> tuple[int, list[str] | None]:
    """Return the number of classes of a file, and their names if it has them.

    Raises:
        UserError: If it has no such task.
    """
    names = arrays["classes"].tolist() if "classes" in arrays and task is None else None
    columns = [arrays[name][:, 3] for name in ("found", "true") if name in arrays]
    columns += [*arrays["runs"][:, 3:5].T] if "runs" in arrays else []
    if columns and task is None:
        labels = [column.max(initial=0) for column in columns]
        return len(names) if names else 1 + int(max(labels)), names
    name = "scores" if task is None else f"scores_{task}"
    if "boxes" in arrays and task is None:  # after six columns
        count = (arrays["boxes"].shape[1] - 6) // 2
    elif name in arrays:
        count = arrays[name].shape[-1]
    else:
        raise UserError(f"there are no {name} (--task), only {', '.join(arrays)}")
    return count, names if names and len(names) == count else None


def activation_of(arrays: Mapping[str, np.ndarray], path: str | Path) -> str:
    """Return what the scores of a file are: ``'softmax'`` of classes, ``'none'`` of values.

    It is ``'sigmoid'`` if a video has any number of classes. A file that does not say it has
    classes by whole numbers, and values that are not all 0 or 1.

    Raises:
        UserError: If it cannot be known; ``path`` names the file.
    """
    labels = arrays.get("labels")
    if "activation" in arrays:
        return str(arrays["activation"])
    if labels is None or labels.dtype.kind != "f":
        return "softmax"
    if np.isin(labels, (0, 1)).all():
        what = "does not say whether its 0 and 1 are labels or values"
        raise UserError(f"{path} {what}; test again with --dump, or with SaveScores(activation=)")
    return "none"


def select_scores(
    arrays: Mapping[str, np.ndarray], task: str | None = None, path: str | Path = ""
) -> Scores:
    """Take the scores of one class a video, without videos that were bad or have no label.

    Args:
        arrays: What ``read_arrays`` read.
        task: Which of several tasks of the head.
        path: The file, for messages.

    Raises:
        UserError: If there is no such task, not one class a video, or no averaged views.
    """
    name = "scores" if task is None else f"scores_{task}"
    tasks = [key for key in arrays if key.startswith("scores")]
    if name not in tasks or "labels" not in arrays:
        raise UserError(f"{path} must have {name} and labels, got {', '.join(arrays)}")
    labels = arrays["labels"]
    if labels.dtype.kind not in "iu" or (labels.ndim == 2 and task is None):
        raise UserError(f"{path} must have one class a video, got several labels, or numbers")
    labels = labels if labels.ndim == 1 else labels[:, tasks.index(name)]
    # The scores of bad videos are those of the policy, not of the model.
    chosen = ~arrays["bad_videos"] & (labels >= 0)
    if not chosen.any():
        raise UserError(f"{path}: no readable video has a label")
    values, labels = arrays[name][chosen], labels[chosen]
    videos = arrays["videos"][chosen] if "videos" in arrays else None
    if values.ndim != 2 or values.shape[1] <= labels.max():
        raise UserError(
            f"{path} must have scores (videos, classes) and labels below the classes, got "
            f"{values.shape} and labels up to {labels.max()}"
        )
    return Scores(values, labels, classes_of(arrays, task)[1], videos)


def draw_confusion(
    counts: np.ndarray, names: Sequence[str], title: str = "", most: int = 30
) -> Figure:
    """Draw counts of videos by true class (rows) and predicted class (columns).

    Colors are fractions of a row. Of more classes the ``most`` confused ones are drawn; a last
    column then holds all other predictions.
    """
    wrong = counts - np.diag(counts.diagonal())
    chosen = np.sort(np.argsort(-(wrong + wrong.T).sum(axis=1), kind="stable")[:most])
    shown, labels = counts[np.ix_(chosen, chosen)], [names[i] for i in chosen]
    columns = labels
    if len(chosen) < len(counts):
        others = counts[chosen].sum(axis=1) - shown.sum(axis=1)
        shown, columns = np.column_stack([shown, others]), [*labels, "any other"]
        title = f"{title}\n{len(chosen)} most confused of {len(counts)} classes".strip()
    fractions = shown / np.maximum(counts[chosen].sum(axis=1, keepdims=True), 1)
    side = min(max(4.5, 0.36 * len(columns) + 2.5), 18)
    figure = Figure(figsize=(side + 1, side), dpi=110, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="predicted class", ylabel="true class")
    image = axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    for (row, column), count in np.ndenumerate(shown):
        if count and len(columns) <= 12:
            color = "white" if fractions[row, column] > 0.5 else "black"
            axes.text(column, row, count, ha="center", va="center", color=color, fontsize=9)
    figure.colorbar(image, ax=axes, label="fraction of the true class", fraction=0.05, pad=0.02)
    return without_formulas(figure)


def count_confusions(scores: Scores) -> np.ndarray:
    """Count videos by class and by predicted class."""
    classes = range(scores.values.shape[1])
    return confusion_matrix(scores.labels, scores.values.argmax(axis=1), labels=classes)


def write_wrong(file: TextIO, scores: Scores, names: Sequence[str]) -> None:
    """Write a row for each video whose prediction is not its class, the surest errors first."""
    every, videos = np.arange(len(scores.labels)), np.asarray(scores.videos)
    predicted = scores.values.argmax(axis=1)
    of_label, of_prediction = scores.values[every, scores.labels], scores.values[every, predicted]
    order = np.argsort(of_label - of_prediction, kind="stable")
    rows = csv.writer(file)
    rows.writerow(["video", "class", "predicted", "score of class", "score of predicted"])
    for i in order[predicted[order] != scores.labels[order]]:
        pair = names[scores.labels[i]], names[predicted[i]]
        rows.writerow([videos[i], *pair, f"{of_label[i]:.4f}", f"{of_prediction[i]:.4f}"])
