"""Trackers of runs. MMEngine's classes for MLflow and Weights & Biases continue no run."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from mmengine.config import Config
from mmengine.visualization.vis_backend import BaseVisBackend, TensorboardVisBackend

from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically

PROJECT = "mmvidformer"  # of the trackers that have projects
FILE = "trackers.json"  # in a work dir: what each tracker calls its last run
FOREIGN = re.compile(r"[^\w. :/-]")  # what MLflow does not take in the name of a metric
OF_TRACKIO = {"time": "iter_time", "step": "iter_step"}  # names that it has itself

Started = tuple[BaseVisBackend, str]  # with what the tracker calls the run


class Tracker(BaseVisBackend):
    """A run of a tracker, for MMEngine's visualizer.

    Args:
        log: Takes values by name, and the step.
        draw: Takes a name, a picture (H, W, 3), RGB, uint8, and the step.
        end: Ends the run.
    """

    experiment = None

    def __init__(
        self,
        log: Callable[[dict, int], Any],
        draw: Callable[[str, np.ndarray, int], Any],
        end: Callable[[], Any],
    ) -> None:
        super().__init__("")
        self._log, self._draw, self.close = log, draw, end

    def _init_env(self) -> None:
        """Do nothing: the run has begun."""

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: object) -> None:
        """Add a picture."""
        self._draw(name, image, step)

    def add_scalar(self, name: str, value: Any, step: int = 0, **kwargs: object) -> None:
        """Add a value."""
        self._log({name: value}, step)

    def add_scalars(self, scalar_dict: dict, step: int = 0, *args: Any, **kwargs: object) -> None:
        """Add values by name."""
        self._log(scalar_dict, step)


def start_tracker(name: str, cfg: Config, folder: str, resumed: str | None) -> BaseVisBackend:
    """Begin a run of a tracker, or continue one.

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
    try:
        tracker, run = TRACKERS[name](cfg, known, os.path.abspath(folder), new)
    except Exception as error:
        if not type(error).__module__.startswith(f"{name}."):
            raise
        raise UserError(f"--log {name}: {' '.join(str(error).split())}") from error
    with write_atomically(work_dir / FILE) as part:
        part.write_text(json.dumps(_read_runs(work_dir) | {name: run}) + "\n", encoding="utf-8")
    return tracker


def _read_runs(work_dir: Path) -> dict[str, str]:
    file = work_dir / FILE
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def _settings(cfg: Config) -> dict[str, Any]:
    return json.loads(json.dumps(cfg.to_dict(), default=str))


def _start_tensorboard(cfg: Config, known: str | None, folder: str, new: str) -> Started:
    tracker = TensorboardVisBackend(known or folder)
    if not known:
        tracker.add_config(cfg)
    return tracker, known or folder


def _start_wandb(cfg: Config, known: str | None, folder: str, new: str) -> Started:
    import wandb

    run = known or new
    options = dict(id=run, name=run, resume="allow", dir=cfg.work_dir)
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    wandb.init(project=project, config=None if known else _settings(cfg), **options)
    return Tracker(
        lambda values, step: wandb.log(values),  # it counts the steps
        lambda title, picture, step: wandb.log({title: wandb.Image(picture)}),
        wandb.finish,
    ), run


def _start_trackio(cfg: Config, known: str | None, folder: str, new: str) -> Started:
    import trackio

    run, project = known or new, os.environ.get("TRACKIO_PROJECT", PROJECT)
    trackio.init(project, name=run, resume="allow", config=_settings(cfg))
    return Tracker(
        lambda values, step: trackio.log({OF_TRACKIO.get(k, k): v for k, v in values.items()}),
        lambda title, picture, step: trackio.log({title: trackio.Image(picture)}),
        trackio.finish,
    ), run


def _start_mlflow(cfg: Config, known: str | None, folder: str, new: str) -> Started:
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
    return Tracker(
        lambda values, step: mlflow.log_metrics(
            {FOREIGN.sub("_", name): float(value) for name, value in values.items()}, step
        ),
        lambda title, picture, step: mlflow.log_image(picture, key=title, step=step),
        mlflow.end_run,
    ), started.info.run_id


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested settings by dotted names; lists of values stay whole."""
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name, value
        return
    for key, part in value.items():
        yield from _flatten(part, f"{name}.{key}" if name else str(key))


TRACKERS: Mapping[str, Callable[[Config, str | None, str, str], Started]] = {
    "tensorboard": _start_tensorboard,
    "wandb": _start_wandb,
    "mlflow": _start_mlflow,
    "trackio": _start_trackio,
}
