"""Draw training curves: python -m lab plot curves WORK_DIR ... --out FILE.

Loss, learning rate and accuracy of one or more runs, from the vis_data/scalars.json that MMEngine
writes into a work dir. A resumed run is one curve; a run may still be in progress.
"""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.sinks.figures import save_figure, without_formulas

Curve = dict[float, float]

# Numbers in the log that are not about the model.
_OTHER = {"step", "time", "data_time", "memory", "iter", "epoch"}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="work dirs")
    parser.add_argument(
        "--out", type=Path, required=True, help="picture (.png, .pdf, .svg)", metavar="FILE"
    )
    parser.add_argument(
        "--names", nargs="+", help="names of the runs (default: their paths)", metavar="NAME"
    )
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    names = args.names or list(map(str, args.runs))
    if len(names) != len(args.runs):
        parser.error(f"--names must name each of the {len(args.runs)} runs, got {len(names)}")
    if len(set(names)) != len(names):
        parser.error(f"runs must have different names, got {', '.join(names)}")
    check_outputs(vars(args), [("--out", args.out)], "out")
    logs = {name: read_log(run) for name, run in zip(names, args.runs, strict=True)}
    save_figure(draw_training(logs), args.out)
    print(f"written: {args.out}")


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
