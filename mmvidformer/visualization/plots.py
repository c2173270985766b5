"""Plots: the saved scores of a test, and training curves of MMEngine's logs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mmvidformer.errors import MissingFile, UserError
from mmvidformer.sinks.figures import without_formulas

Curve = dict[float, float]

# Numbers in the log that are not about the model.
_OTHER = {"step", "time", "data_time", "memory", "iter", "epoch"}


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


def read_scores(path: str | Path, task: str | None = None) -> Scores:
    """Read a file of ``test --dump``, without the videos that were bad or have no label.

    A head of several tasks needs the name of one.

    Raises:
        UserError: If it is not such a file, has no such task, not one class a video, or no
            averaged views.
    """
    if Path(path).suffix != ".npz":
        raise UserError(f"scores must be an .npz of mmvidformer test --dump FILE.npz, got {path}")
    name = "scores" if task is None else f"scores_{task}"
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    tasks = [key for key in arrays if key.startswith("scores")]
    if name not in tasks or "labels" not in arrays:
        raise UserError(f"{path} must have {name} and labels, got {', '.join(arrays)}")
    # The scores of bad videos are those of the policy, not of the model.
    good = ~arrays["bad_videos"] if "bad_videos" in arrays else slice(None)
    values, labels = arrays[name][good], arrays["labels"][good]
    videos = arrays["videos"][good] if "videos" in arrays else None
    if labels.dtype.kind not in "iu" or (labels.ndim == 2 and task is None):
        raise UserError(f"{path} must have one class a video, got several labels, or numbers")
    labels = labels if labels.ndim == 1 else labels[:, tasks.index(name)]
    is_labeled = labels >= 0
    if not is_labeled.any():
        raise UserError(f"{path}: no readable video has a label")
    values, labels = values[is_labeled], labels[is_labeled]
    videos = None if videos is None else videos[is_labeled]
    if values.ndim != 2 or values.shape[1] <= labels.max():
        raise UserError(
            f"{path} must have scores (videos, classes) and labels below the classes, got "
            f"{values.shape} and labels up to {labels.max()}"
        )
    names = arrays["classes"].tolist() if "classes" in arrays and task is None else []
    classes = names if len(names) == values.shape[1] else None
    return Scores(values, labels, classes, videos)


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


def draw_class_accuracy(
    counts: np.ndarray, names: Sequence[str], title: str = "", most: int = 30
) -> Figure:
    """Draw the accuracy of the ``most`` worst classes that have videos, the worst first.

    Arguments are those of ``draw_confusion``.
    """
    videos = counts.sum(axis=1)
    seen = np.flatnonzero(videos)
    accuracy = 100 * counts.diagonal()[seen] / videos[seen]
    worst = np.argsort(accuracy, kind="stable")[:most]
    if len(worst) < len(seen):
        title = f"{title}\n{len(worst)} worst of {len(seen)} classes".strip()
    size = (7, max(2.5, 1.2 + 0.26 * len(worst)))
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    axes = figure.add_subplot(title=title, xlim=(0, 125), xticks=range(0, 101, 20), ymargin=0.02)
    axes.set_xlabel(f"accuracy in % (mean of {len(seen)} classes, {accuracy.mean():.1f}%)")
    bars = axes.barh(range(len(worst)), accuracy[worst])
    texts = [f"{accuracy[i]:.0f}% of {videos[seen[i]]}" for i in worst]
    axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.set_yticks(range(len(worst)), [names[seen[i]] for i in worst], fontsize=8)
    axes.invert_yaxis()
    return without_formulas(figure)


@dataclass(frozen=True)
class TrainingLog:
    """Curves of a run.

    Attributes:
        training: Curve of each quantity of training, such as ``loss`` and ``lr``.
        validation: Curve of each metric of validation, such as ``acc/top1``.
        unit: Unit of time: ``'epoch'``, or ``'iteration'`` if the run does not count epochs.
    """

    training: dict[str, Curve]
    validation: dict[str, Curve]
    unit: str


def read_log(folder: str | Path) -> TrainingLog:
    """Read ``*/vis_data/scalars.json`` of a work dir.

    The parts of a resumed run become one curve. Where they overlap, the later part counts, so that
    of two runs in one folder only the newer is left. Files without a line of training, such as
    those of tests, are skipped.

    Raises:
        FileNotFoundError: If there is no log.
        UserError: If no line is of training.
    """
    files = sorted(Path(folder).glob("*/vis_data/scalars.json"))
    if not files:
        raise MissingFile(f"{folder} has no */vis_data/scalars.json; is it a work dir?")
    rows: list[dict] = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        # The last line is incomplete if a run was killed, or is writing.
        part = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        first = next((row["iter"] for row in part if "iter" in row), None)
        if first is not None:
            rows = rows_before(rows, first) + part
    if not rows:
        raise UserError(f"the log of {folder} has no line of training")
    trained = [row for row in rows if "iter" in row]
    epochs = all("epoch" in row for row in trained)
    # Lines count the iterations of the whole run; the length of an epoch follows from its last.
    length = max(row["iter"] / row["epoch"] for row in trained) if epochs else 1
    log = TrainingLog({}, {}, "epoch" if epochs else "iteration")
    for row in rows:
        curves = log.training if "iter" in row else log.validation
        now = row["iter"] / length if "iter" in row else row["step"]
        for name, value in row.items():
            if name not in _OTHER and isinstance(value, int | float):
                curves.setdefault(name, {})[now] = value
    return log


def rows_before(rows: list[dict], iteration: int) -> list[dict]:
    """Return the rows of a log up to the first training row of an iteration or a later one."""
    for number, row in enumerate(rows):
        # Lines of validation have no iteration, but follow those that they belong to.
        if row.get("iter", 0) >= iteration:
            return rows[:number]
    return rows


def draw_training(logs: Mapping[str, TrainingLog]) -> Figure:
    """Draw loss, learning rate and validation metrics of named runs, one color per run.

    Metrics are top-1 accuracies, or else the first metric. Beside a top-1 accuracy of
    validation, that of single training batches (``top1_acc``) is drawn dashed.

    Raises:
        UserError: If some runs count epochs and others iterations.
    """
    known = list(dict.fromkeys(name for log in logs.values() for name in log.validation))
    metrics = [name for name in known if name.endswith("top1")] or known[:1]
    unit, *others = {log.unit for log in logs.values()}
    if others:
        raise UserError("some runs count epochs, others iterations; draw them separately")
    titles = ["loss", "learning rate", *metrics]
    figure = Figure(figsize=(4.6 * len(titles), 3.9), dpi=100, layout="constrained")
    grid = figure.subplots(1, len(titles), squeeze=False)[0]
    for number, (run, log) in enumerate(logs.items()):
        color = f"C{number % 10}"
        _draw(grid[0], log.training.get("loss", {}), color, label=run)
        _draw(grid[1], log.training.get("lr", {}), color)
        for axes, name in zip(grid[2:], metrics, strict=True):
            if name.endswith("top1"):
                _draw(axes, log.training.get("top1_acc", {}), color, alpha=0.4, linestyle="--")
            _draw(axes, log.validation.get(name, {}), color, marker=".")
    for axes, title in zip(grid, titles, strict=True):
        axes.set(xlabel=unit, title=title, xlim=(0, None), ylim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.ticklabel_format(axis="y", scilimits=(-2, 4))  # small learning rates
        axes.grid(alpha=0.3)
    if any(name.endswith("top1") for name in metrics):
        grid[-1].set_xlabel(f"{unit} (dashed: single training batches)")
    figure.legend(loc="outside lower center", ncols=min(len(logs), 4), fontsize=9)
    return without_formulas(figure)


def _draw(axes: Axes, curve: Curve, color: str, **style: object) -> None:
    if len(curve) == 1:  # a line of one point is invisible
        style["marker"] = "."
    axes.plot(list(curve), list(curve.values()), color=color, **style)
