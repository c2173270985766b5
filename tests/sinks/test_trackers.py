"""Runs that log to trackers: what these get, resumed runs, and mistakes."""

import json
import sys
from pathlib import Path
from threading import Event
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.engine.options import parse_options
from mmvidformer.engine.run_options import TRACKERS as OFFERED
from mmvidformer.engine.run_options import TrainOptions
from mmvidformer.sinks import trackers
from mmvidformer.sinks.trackers import TRACKERS, start_tracker
from mmvidformer.sinks.tracking import LogErrors

CONFIG = Config(dict(a=1, b=dict(c=[2, dict(d=3)]), e=Path("x")))
SETTINGS = {"a": 1, "b": {"c": [2, {"d": 3}]}, "e": "x"}
PICTURE = np.zeros((2, 2, 3), np.uint8)


class Calls(ModuleType):
    """A package that keeps the calls of its functions."""

    def __init__(self, name: str, **values: object) -> None:
        super().__init__(name)
        self.calls: list[tuple] = []
        for key, value in values.items():
            setattr(self, key, value)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))

    def of(self, name: str) -> list[tuple]:
        return [call[1:] for call in self.calls if call[0] == name]


def log_all(name: str, work_dir: Path, resumed: Path | None = None) -> None:
    cfg = Config({**CONFIG, "work_dir": str(work_dir)})
    tracker = start_tracker(name, cfg, str(work_dir / "vis_data"), resumed and str(resumed))
    tracker.add_scalars({"loss": 0.5, "mAP@1s": np.float32(0.25), "time": 1.0}, 3)
    tracker.add_scalar("lr", 0.1, 3)
    tracker.add_image("confusion", PICTURE, 3)
    tracker.close()


def test_the_offered_trackers_are_there() -> None:
    assert set(TRACKERS) == set(OFFERED)


def test_a_run_of_tensorboard_goes_on_in_its_folder(tmp_path: Path, monkeypatch) -> None:
    writer, folders = Calls("writer"), []
    board = Calls("board", SummaryWriter=lambda folder: folders.append(folder) or writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    log_all("tensorboard", tmp_path)
    log_all("tensorboard", tmp_path, resumed=tmp_path)
    assert folders == 2 * [str(tmp_path / "vis_data")]
    scalars = [args for args, _ in writer.of("add_scalar")[:4]]
    assert scalars == [("loss", 0.5, 3), ("mAP@1s", 0.25, 3), ("time", 1.0, 3), ("lr", 0.1, 3)]
    assert [args[0] for args, _ in writer.of("add_text")] == ["config"]  # that of the first start
    assert [args[0] for args, _ in writer.of("add_image")] == 2 * ["confusion"]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_run_of_wandb_goes_on(name: str, tmp_path: Path, monkeypatch) -> None:
    package = Calls(name, Image=lambda picture: ("image", picture.shape))
    monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    monkeypatch.setenv("TRACKIO_PROJECT", "mine")
    work_dir = tmp_path / "my run?"
    log_all(name, work_dir)
    log_all(name, work_dir, resumed=work_dir)
    log_all(name, work_dir)
    runs = [kwargs["name"] for _, kwargs in package.of("init")]
    assert runs[0] == runs[1] != runs[2] and all(run.startswith("my_run_-") for run in runs)
    assert {kwargs["resume"] for _, kwargs in package.of("init")} == {"allow"}
    (args, first), *_ = package.of("init")
    assert first["config"] == SETTINGS | {"work_dir": str(work_dir)} and "mine" in (
        *args,
        first.get("project"),
    )
    iteration = "time" if name == "wandb" else "iter_time"
    rows = [row for (row,), _ in package.of("log")[:3]]
    assert rows == [
        {"loss": 0.5, "mAP@1s": 0.25, iteration: 1.0},
        {"lr": 0.1},
        {"confusion": ("image", (2, 2, 3))},
    ]
    assert len(package.of("finish")) == 3
    assert json.loads((work_dir / "trackers.json").read_text()) == {name: runs[2]}


@pytest.mark.parametrize("address", ["", "http://server"])
def test_a_run_of_mlflow_goes_on(address: str, tmp_path: Path, monkeypatch) -> None:
    package = Calls("mlflow", get_experiment_by_name=lambda name: None)
    run = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    package.start_run = lambda *args, **kwargs: package.calls.append(("start", args, kwargs)) or run
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    log_all("mlflow", tmp_path)
    log_all("mlflow", tmp_path, resumed=tmp_path)
    uri = f"sqlite:///{tmp_path.as_posix()}/mlflow.db"
    assert package.of("set_tracking_uri") == 2 * [((address or uri,), {})]
    folder = None if address else (tmp_path / "mlflow").as_uri()
    assert package.of("create_experiment")[0] == (
        ("mmvidformer",),
        {"artifact_location": folder},
    )
    (first, new), (second, none) = ((args[0], kw["run_name"]) for args, kw in package.of("start"))
    assert (first, second, none) == (None, "r1", None) and new.startswith(tmp_path.name)
    parameters = {"a": 1, "b.c.0": 2, "b.c.1.d": 3, "e": "x", "work_dir": str(tmp_path)}
    assert package.of("log_params") == [((parameters,), {})]  # the first values stay
    rows = [args for args, _ in package.of("log_metrics")[:2]]
    assert rows == [({"loss": 0.5, "mAP_1s": 0.25, "time": 1.0}, 3), ({"lr": 0.1}, 3)]
    assert package.of("log_image")[0][1] == {"key": "confusion", "step": 3}
    assert len(package.of("end_run")) == 2


def test_what_a_package_refuses_is_a_line(tmp_path: Path, monkeypatch) -> None:
    package = Calls("wandb")
    usage = type("UsageError", (Exception,), {"__module__": "wandb.errors"})
    errors = [usage("no API key\n  configured"), KeyError("a bug")]

    def refuse(**kwargs: object) -> None:
        raise errors.pop(0)

    package.init = refuse
    monkeypatch.setitem(sys.modules, "wandb", package)
    with pytest.raises(ValueError, match="--log wandb: no API key configured$"):
        log_all("wandb", tmp_path)
    with pytest.raises(KeyError, match="a bug"):
        log_all("wandb", tmp_path)


@pytest.fixture
def warned(monkeypatch) -> list[str]:
    """What is told of trackers."""
    texts: list[str] = []
    monkeypatch.setattr(trackers, "print_log", lambda text, *args: texts.append(text))
    return texts


class Dead(Calls):
    """A package whose functions of some names find no server."""

    def __init__(self, *names: str) -> None:
        super().__init__("wandb", Image=lambda picture: picture)
        for name in names:
            setattr(self, name, self.fail)

    def fail(self, *args: object, **kwargs: object) -> None:
        self.calls.append(("fail", args, kwargs))
        try:
            raise ConnectionRefusedError("nobody listens")
        except OSError as error:
            raise type("CommError", (Exception,), {})("no server\n  answers") from error


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("init", "no server answers; the run goes on without it"),
        ("log", "no server answers; it gets no more of this run"),
        ("finish", "no server answers; it gets no more of this run"),
    ],
)
def test_a_server_that_is_gone_is_one_warning(
    name: str, told: str, warned: list[str], tmp_path: Path, monkeypatch
) -> None:
    package = Dead(name)
    monkeypatch.setitem(sys.modules, "wandb", package)
    log_all("wandb", tmp_path)
    assert warned == [f"--log wandb: {told}"]
    assert len(package.of("fail")) == 1
    assert len(package.of("finish")) == 0
    assert (tmp_path / "trackers.json").is_file() == (name != "init")


def test_nothing_waits_for_a_server_that_is_silent(warned, tmp_path: Path, monkeypatch) -> None:
    """What it did not get comes when it answers; what it refuses then is told."""
    answers, over = Event(), Event()
    package = Calls("wandb", Image=lambda picture: picture, finish=over.set)
    package.init = lambda **kwargs: answers.wait()
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setattr(trackers, "WAIT", 0)
    log_all("wandb", tmp_path)
    early, late = warned
    assert early.endswith("wandb: its server has not answered yet; the run goes on")
    assert late.endswith("it did not answer for 0 s, and has only a part of this run")
    assert package.of("log") == []
    answers.set()
    assert over.wait(60)
    assert [sorted(row) for (row,), _ in package.of("log")] == [
        ["loss", "mAP@1s", "time"],
        ["lr"],
        ["confusion"],
    ]
    refused, told = Event(), Event()
    package.init = lambda **kwargs: refused.wait() and 1 / 0
    monkeypatch.setattr(trackers, "print_log", lambda text, *_: warned.append(text) or told.set())
    log_all("wandb", tmp_path)
    told.clear()
    refused.set()
    assert told.wait(60) and warned[-1] == "--log wandb: division by zero"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mlflow"], "mlflow is not installed: pip install mlflow"),
        (["aim"], "invalid choice: 'aim'"),
    ],
)
def test_a_missing_package_is_told_before_the_run(words, message, monkeypatch, capsys) -> None:
    monkeypatch.setattr("mmvidformer.engine.run_options.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        parse_options(TrainOptions, ["config.py", "--log", *words], "")
    assert message in capsys.readouterr().err


def draw(samples: list[dict], activation: str = "softmax") -> list[str]:
    """Names of what is drawn of a test."""
    pictures: list[str] = []
    visualizer = SimpleNamespace(add_image=lambda name, *args: pictures.append(name))
    metric = LogErrors(visualizer, activation)
    metric.process(None, samples)
    assert metric.compute_metrics(metric.results) == {}
    return pictures


def test_confusions_and_errors_are_drawn(tiny_videos) -> None:
    video = str(tiny_videos.root / "val_0.mp4")
    wrong = dict(pred_score=torch.tensor([0.2, 0.8]), gt_label=torch.tensor([0]), video_path=video)
    right = {**wrong, "gt_label": torch.tensor([1])}
    assert draw([wrong, right]) == ["confusion", "errors"]
    assert draw([right]) == ["confusion"]
    assert draw([{key: wrong[key] for key in ("pred_score", "gt_label")}]) == ["confusion"]
    verbs = {"verb": wrong["pred_score"], "noun": wrong["pred_score"]}
    several = {**wrong, "pred_score": verbs, "gt_label": torch.tensor([0, 1])}
    assert draw([several]) == ["confusion_verb", "errors_verb", "confusion_noun"]
    labels = {**wrong, "gt_label": torch.tensor([1.0, 1.0])}
    assert draw([labels], "sigmoid") == ["errors"]
    numbers = {**wrong, "pred_score": torch.tensor([0.5]), "gt_label": torch.tensor([3.5])}
    spans = dict(step=12.0, spans=[(0.0, 2.0, 0)], background=-1, total_frames=24, avg_fps=12.0)
    frames = {**wrong, "pred_score": torch.tensor([[0.9, 0.1], [0.2, 0.8]]), **spans}
    assert draw([numbers], "none") == draw([frames]) == ["errors"]
    moment = dict(timestamp=1.0, img_shape=(2, 2), video_path=video)
    true = dict(bboxes=torch.tensor([[0.0, 0, 2, 1]]), labels=torch.ones(1, 1))
    found = dict(bboxes=torch.zeros(0, 4), scores=torch.zeros(0, 2))
    assert draw([{**moment, "gt_instances": true, "pred_instances": found}]) == ["errors"]
    steps, views = {**wrong, "step": 1.0}, {**wrong, "pred_score": torch.ones(2, 2)}
    assert draw([steps]) == draw([views]) == []
