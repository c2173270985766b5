"""Training curves from the logs that MMEngine writes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

Curve = dict[float, float]

# Of a validation row: not figures of the model.
_OTHER = {"step", "time", "data_time", "memory"}


@dataclass(frozen=True)
class TrainingLog:
    """What a run logged, by epoch, or by iteration where it counts no epochs.

    Attributes:
        training: Each quantity of training, such as ``loss`` and ``lr``, over time.
        validation: Each figure of validation, such as ``acc/top1``, over time.
        unit: ``'epoch'`` or ``'iteration'``.
    """

    training: Mapping[str, Curve]
    validation: Mapping[str, Curve]
    unit: str


def read_log(folder: str | Path) -> TrainingLog:
    """Read ``*/vis_data/scalars.json`` of a work dir; parts of a resumed run are put together.

    Where parts overlap, after a checkpoint that was older than the last log line, the later counts.

    Args:
        folder: A work dir, or a ``scalars.json``.

    Raises:
        FileNotFoundError: If there is no log.
        ValueError: If a line is no JSON, or there is no line of training.
    """
    folder = Path(folder)
    files = [folder] if folder.is_file() else sorted(folder.glob("*/vis_data/scalars.json"))
    if not files:
        raise FileNotFoundError(f"{folder} has no */vis_data/scalars.json; is it a work dir?")
    rows: list[dict] = []
    for file in files:
        part = _read_rows(file)
        steps = [row["iter"] for row in part if "iter" in row]
        if steps:  # what an earlier part logged from here on was done again
            rows = [row for row in rows if row.get("iter", 0) < steps[0]]
        rows += part
    trained = [row for row in rows if "iter" in row]
    if not trained:
        raise ValueError(f"{', '.join(map(str, files))}: no line of training")
    epochs = all("epoch" in row for row in trained)
    # A line has the iterations of the whole run; those of an epoch follow from its last line.
    length = max(row["iter"] / row["epoch"] for row in trained) if epochs else 1
    training: dict[str, Curve] = {}
    validation: dict[str, Curve] = {}
    for row in rows:
        time = row["iter"] / length if "iter" in row else row["step"]
        for name, value in row.items():
            if name not in _OTHER | {"iter", "epoch"} and isinstance(value, int | float):
                curves = training if "iter" in row else validation
                curves.setdefault(name, {})[time] = value
    return TrainingLog(training, validation, "epoch" if epochs else "iteration")


def _read_rows(file: Path) -> list[dict]:
    rows = []
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):  # a run that was cut off, or is just writing
                break
            raise ValueError(f"{file}, line {number} is no JSON: {line[:80]!r}") from error
    return rows


def main_figures(logs: Mapping[str, TrainingLog]) -> list[str]:
    """Choose what to draw of the validations: top-1 accuracies, or else the first figure."""
    names = list(dict.fromkeys(name for log in logs.values() for name in log.validation))
    return [name for name in names if name.endswith("top1")] or names[:1]


def draw_training(logs: Mapping[str, TrainingLog], figures: Sequence[str] | None = None) -> Figure:
    """Draw loss, learning rate and validation figures of runs, a colour each.

    Beside a top-1 accuracy of validation stands that of training batches (``top1_acc``), dashed.

    Args:
        logs: By the name of a run.
        figures: Validation figures, a panel each; default: ``main_figures``.

    Raises:
        ValueError: If no run has a figure, or some runs count epochs and others iterations.
    """
    figures = main_figures(logs) if figures is None else list(figures)
    known = sorted({name for log in logs.values() for name in log.validation})
    for name in figures:
        if name not in known:
            raise ValueError(f"no run has the figure {name!r}; there are {', '.join(known)}")
    units = sorted({log.unit for log in logs.values()})
    if len(units) > 1:
        raise ValueError("some runs count epochs, others iterations; draw them apart")
    panels = [("loss", "loss", None), ("lr", "learning rate", None)]
    panels += [(None, name, name) for name in figures]
    figure = Figure(figsize=(4.6 * len(panels), 3.9), dpi=100, layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (trained, title, validated) in zip(grid, panels, strict=True):
        for number, (run, log) in enumerate(logs.items()):
            colour, label = f"C{number % 10}", run if axes is grid[0] else None
            if trained:
                _draw(axes, log.training.get(trained, {}), colour, label)
                continue
            if title.endswith("top1"):
                _draw(axes, log.training.get("top1_acc", {}), colour, alpha=0.4, linestyle="--")
            _draw(axes, log.validation.get(validated, {}), colour, marker=".")
        axes.set(xlabel=units[0], title=title)
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.ticklabel_format(axis="y", scilimits=(-2, 4))  # small learning rates
        axes.grid(alpha=0.3)
    if any(name.endswith("top1") for name in figures):
        grid[-1].set_xlabel(f"{units[0]} (dashed: single training batches)")
    figure.legend(loc="outside lower center", ncols=min(len(logs), 4), fontsize=9)
    return figure


def _draw(axes: Axes, curve: Curve, colour: str, label: str | None = None, **style: object) -> None:
    if len(curve) == 1:  # a line of one point cannot be seen
        style["marker"] = "."
    axes.plot(list(curve), list(curve.values()), color=colour, label=label, **style)
