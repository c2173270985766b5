"""What trackers get of a run beside its curves: results of tests, confusions, and errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.logging import MessageHub, print_log
from mmengine.runner import BaseLoop, Runner
from mmengine.visualization import Visualizer

from mmvidformer.errors import UserError
from mmvidformer.sinks.errors import draw_mistakes, find_mistakes
from mmvidformer.sinks.scores import (
    activation_of,
    classes_of,
    count_confusions,
    draw_confusion,
    list_tasks,
    select_scores,
)
from mmvidformer.sinks.trackers import start_tracker
from mmvidformer.tasks.score_files import SaveScores
from mmvidformer.tasks.table import task_of

SHOWN = 8  # errors


def log_to(runner: Runner, trackers: Sequence[str], resumed: str | None, split: str = "") -> None:
    """Let a runner log to trackers, beside what its config names, which does not change.

    Args:
        runner: The runner; the first process alone logs.
        trackers: Names in ``TRACKERS``.
        resumed: The work dir whose last run is continued. None: a new one begins.
        split: What the results of its test are called.
    """
    for name in dict.fromkeys(trackers if is_main_process() else ()):
        tracker = start_tracker(name, runner.cfg, f"{runner.log_dir}/vis_data", resumed)
        runner.visualizer._vis_backends[f"--log {name}"] = tracker
    runner.register_hook(LogHook(split))


def log_result(cfg: Config, trackers: Sequence[str], numbers: Mapping[str, float]) -> None:
    """Log the results of a run without a runner, whose config has its work dir."""
    for name in dict.fromkeys(trackers):
        tracker = start_tracker(name, cfg, f"{cfg.work_dir}/vis_data", None)
        tracker.add_scalars(dict(numbers))
        tracker.close()


class LogHook(Hook):
    """Gives the visualizer the errors of tests and validations, and the results of a test.

    Args:
        split: What names of these results begin with.
    """

    def __init__(self, split: str) -> None:
        self.split = split

    def before_run(self, runner: Runner) -> None:
        """Add the metric that draws errors."""
        for loop in (runner._val_loop, runner._test_loop):
            if isinstance(loop, BaseLoop):
                metric = LogErrors(runner.visualizer, task_of(runner.cfg).activation or "none")
                metric.dataset_meta = loop.evaluator.dataset_meta
                loop.evaluator.metrics.append(metric)

    def after_test_epoch(self, runner: Runner, metrics: Mapping | None = None) -> None:
        """Log all numbers."""
        numbers = {
            f"{self.split}/{name}": value
            for name, value in (metrics or {}).items()
            if np.ndim(value) == 0
        }
        runner.visualizer.add_scalars(numbers, step=0)


class LogErrors(SaveScores):
    """Draws confusions, and frames of the worst errors; it has no results.

    What has no row in ``SaveScores`` is left out.
    """

    def __init__(self, visualizer: Visualizer, activation: str) -> None:
        super().__init__("errors.npz", activation)
        self.visualizer = visualizer

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store what is known of each sample, but scores of its views."""
        for sample in data_samples:
            row = self.row_of(sample)
            if row and all(np.ndim(row[name]) == 1 for name in row if name.startswith("scores")):
                self.results.append(row)

    def compute_metrics(self, results: list[dict]) -> dict:
        """Draw what was found."""
        if not results:
            return {}
        arrays = self.arrays_of(results)
        step = MessageHub.get_current_instance().get_info("iter", -1) + 1
        for task in list_tasks(arrays):
            count, names = classes_of(arrays, task)
            names = names or [*map(str, range(count))]
            try:
                for name, figure in _draw(arrays, names, task):
                    canvas = FigureCanvasAgg(figure)
                    canvas.draw()
                    name = name if task is None else f"{name}_{task}"
                    pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
                    self.visualizer.add_image(name, pixels, step)
            except UserError as error:  # such as a dataset that names no videos
                print_log(f"no errors are drawn: {error}", "current", logging.WARNING)
        return {}


def _draw(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], task: str | None
) -> Iterator[tuple[str, Figure]]:
    """Yield pictures by name."""
    if "labels" in arrays and activation_of(arrays, "the test") == "softmax":
        counts = count_confusions(select_scores(arrays, task, "the test"))
        yield "confusion", draw_confusion(counts, names)
    if mistakes := find_mistakes(arrays, names, task, "the test"):
        yield "errors", draw_mistakes(mistakes[:SHOWN])
