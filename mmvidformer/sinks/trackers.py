"""Trackers of runs. MMEngine's classes for MLflow and Weights & Biases continue no run."""

import json
import logging
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from queue import Queue
from threading import Lock, Thread
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.visualization.vis_backend import BaseVisBackend, TensorboardVisBackend

from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.files import read_json

PROJECT = "mmvidformer"  # of the trackers that have projects
FILE = "trackers.json"  # in a work dir: what each tracker calls its last run
LOCK = Lock()  # of these files
FOREIGN = re.compile(r"[^\w. :/-]")  # what MLflow does not take in the name of a metric
OF_TRACKIO = {"time": "iter_time", "step": "iter_step"}  # names that it has itself
WAIT = 20.0  # seconds for a server to answer, at the start and at the end


class Run(NamedTuple):
    """A run of a tracker that has begun.

    Attributes:
        log: Takes values by name, and the step.
        draw: Takes a name, a picture (H, W, 3), RGB, uint8, and the step.
        end: Ends the run.
        key: What the tracker calls it.
    """

    log: Callable[[dict, int], Any]
    draw: Callable[[str, np.ndarray, int], Any]
    end: Callable[[], Any]
    key: str


class Tracker(BaseVisBackend):
    """A run of a tracker, for MMEngine's visualizer.

    A thread of its own speaks to it: training neither waits for a server, nor ends with one. What
    fails is told once, and the rest is left out.

    Args:
        name: The tracker, for messages.
        start: Begins the run.

    Attributes:
        begun: Done once the run has begun, or with the error of ``start``.
    """

    experiment = None

    def __init__(self, name: str, start: Callable[[], Run]) -> None:
        super().__init__("")
        self.name = name
        self.begun: Future[None] = Future()
        self._tasks: Queue[Callable[[Run], Any] | None] = Queue()
        # No executor: Python would wait for its threads, and so for a silent server, at its end.
        self._thread = Thread(target=self._speak, args=(start,), daemon=True)
        self._thread.start()

    def _speak(self, start: Callable[[], Run]) -> None:
        try:
            run = start()
            self.begun.set_result(None)
            while task := self._tasks.get():
                task(run)
            run.end()
        except Exception as error:
            if self.begun.done():
                self.warn(f"{_line_of(error)}; it gets no more of this run")
            else:
                self.begun.set_exception(error)

    def warn(self, text: str) -> None:
        """Tell what is wrong with it."""
        print_log(f"--log {self.name}: {text}", "current", logging.WARNING)

    def _init_env(self) -> None:
        """Do nothing: the thread begins the run."""

    def _tell(self, task: Callable[[Run], Any] | None) -> None:
        if self._thread.is_alive():
            self._tasks.put(task)

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: object) -> None:
        """Add a picture."""
        self._tell(lambda run: run.draw(name, image, step))

    def add_scalar(self, name: str, value: Any, step: int = 0, **kwargs: object) -> None:
        """Add a value."""
        self.add_scalars({name: value}, step)

    def add_scalars(self, scalar_dict: dict, step: int = 0, *args: Any, **kwargs: object) -> None:
        """Add values by name."""
        values = dict(scalar_dict)  # other backends add to it
        self._tell(lambda run: run.log(values, step))

    def close(self) -> None:
        """End the run, once it has everything or does not answer."""
        self._tell(None)
        self._thread.join(WAIT)
        if self._thread.is_alive():
            self.warn(f"it did not answer for {WAIT:g} s, and has only a part of this run")


def start_tracker(name: str, cfg: Config, folder: str, resumed: str | None) -> Tracker:
    """Begin a run of a tracker, or continue one.

    A server that does not answer is a warning, and the run goes on.

    Args:
        name: The tracker, in ``TRACKERS``.
        cfg: Config of the run, with its work dir.
        folder: Where MMEngine writes the log.
        resumed: The work dir whose last run is continued. None: a new one begins.

    Raises:
        UserError: If its package refuses, such as without a key.
    """
    work_dir = Path(cfg.work_dir).resolve()
    known = None if resumed is None else _read_runs(Path(resumed)).get(name)
    new = "-".join([re.sub(r"[^\w-]", "_", work_dir.name)[:40], uuid4().hex[:6]])
    work_dir.mkdir(parents=True, exist_ok=True)

    def start() -> Run:
        run = TRACKERS[name](cfg, known, os.path.abspath(folder), new)
        with LOCK, write_atomically(work_dir / FILE) as part:
            runs = _read_runs(work_dir) | {name: run.key}
            part.write_text(json.dumps(runs) + "\n", encoding="utf-8")
        return run

    def tell_late(begun: Future) -> None:
        if error := begun.exception():
            tracker.warn(_line_of(error))

    tracker = Tracker(name, start)
    if not wait([tracker.begun], WAIT).done:
        tracker.warn("its server has not answered yet; the run goes on")
        tracker.begun.add_done_callback(tell_late)
    elif error := tracker.begun.exception():
        if _is_of_a_server(error):
            tracker.warn(f"{_line_of(error)}; the run goes on without it")
        elif isinstance(error, ValueError) or type(error).__module__.startswith(f"{name}."):
            raise UserError(f"--log {name}: {_line_of(error)}") from error
        else:
            raise error
    return tracker


def _is_of_a_server(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is of a connection or a file."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error is not None


def _line_of(error: BaseException) -> str:
    return textwrap.shorten(str(error) or type(error).__name__, 200)


def _read_runs(work_dir: Path) -> dict[str, str]:
    file = work_dir / FILE
    return read_json(file) if file.is_file() else {}


def _settings(cfg: Config) -> dict[str, Any]:
    return json.loads(json.dumps(cfg.to_dict(), default=str))


def _start_tensorboard(cfg: Config, known: str | None, folder: str, new: str) -> Run:
    board = TensorboardVisBackend(known or folder)
    if not known:
        board.add_config(cfg)
    return Run(board.add_scalars, board.add_image, board.close, known or folder)


def _start_wandb(cfg: Config, known: str | None, folder: str, new: str) -> Run:
    import wandb

    run = known or new
    options = dict(id=run, name=run, resume="allow", dir=cfg.work_dir)
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    wandb.init(project=project, config=None if known else _settings(cfg), **options)
    return Run(
        lambda values, step: wandb.log(values),  # it counts the steps
        lambda title, picture, step: wandb.log({title: wandb.Image(picture)}),
        wandb.finish,
        run,
    )


def _start_trackio(cfg: Config, known: str | None, folder: str, new: str) -> Run:
    import trackio

    run, project = known or new, os.environ.get("TRACKIO_PROJECT", PROJECT)
    trackio.init(project, name=run, resume="allow", config=_settings(cfg))
    return Run(
        lambda values, step: trackio.log({OF_TRACKIO.get(k, k): v for k, v in values.items()}),
        lambda title, picture, step: trackio.log({title: trackio.Image(picture)}),
        trackio.finish,
        run,
    )


def _start_mlflow(cfg: Config, known: str | None, folder: str, new: str) -> Run:
    import mlflow

    address, artifacts, work_dir = os.environ.get("MLFLOW_TRACKING_URI"), None, Path(cfg.work_dir)
    if not address:
        address = f"sqlite:///{(work_dir.resolve() / 'mlflow.db').as_posix()}"
        artifacts = (work_dir.resolve() / "mlflow").as_uri()
    mlflow.set_tracking_uri(address)
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    if mlflow.get_experiment_by_name(experiment) is None:
        mlflow.create_experiment(experiment, artifact_location=artifacts)
    mlflow.set_experiment(experiment)
    started = mlflow.start_run(known, run_name=None if known else new)
    if not known:  # it takes no second value of a parameter
        mlflow.log_params(dict(_flatten(_settings(cfg))))
        mlflow.log_text(cfg.pretty_text, "config.py")
    return Run(
        lambda values, step: mlflow.log_metrics(
            {FOREIGN.sub("_", name): float(value) for name, value in values.items()}, step
        ),
        lambda title, picture, step: mlflow.log_image(picture, key=title, step=step),
        mlflow.end_run,
        started.info.run_id,
    )


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested settings by dotted names; lists of values stay whole."""
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name, value
        return
    for key, part in value.items():
        yield from _flatten(part, f"{name}.{key}" if name else str(key))


TRACKERS: Mapping[str, Callable[[Config, str | None, str, str], Run]] = {
    "tensorboard": _start_tensorboard,
    "wandb": _start_wandb,
    "mlflow": _start_mlflow,
    "trackio": _start_trackio,
}
