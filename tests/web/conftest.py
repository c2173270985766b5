"""A server with tiny models."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import Limits, ServeOptions
from mmvidformer.registry import MODELS
from mmvidformer.video.processes import clean_context
from mmvidformer.web import process
from tests.web.serving import Served
from tests.web.trap_models import TrapModel


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> tuple[Path, Path]:
    """Config and weights of a tiny model."""
    folder = tmp_path_factory.mktemp("tiny")
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    cfg.class_names = ["red", "green", "blue"]
    cfg.dump(folder / "tiny.py")
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(cfg.model).state_dict()}, folder / "tiny.pth")
    return folder / "tiny.py", folder / "tiny.pth"


@pytest.fixture(scope="session")
def models(tiny) -> dict[str, TrapModel]:
    """A tiny model, twice."""
    model = TrapModel(config=str(tiny[0]), checkpoint=str(tiny[1]), device="cpu", clips=None)
    return {"tiny": model, "other": model}


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """Processes are forked by the server of the tests, which has imported what they need.

    The commands start theirs anew: ``test_serve_command.py``, ``test_page.py``.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_PROCESSES", clean_context())
        yield


@pytest.fixture(scope="module")
def served(models, tmp_path_factory, forked) -> Iterator[Served]:
    """A server of two processes, and of one for a stream."""
    Server = pytest.importorskip("mmvidformer.web.server").Server
    limits = Limits(max_mb=0.5, max_seconds=3)
    folder = tmp_path_factory.mktemp("server")
    options = ServeOptions(workers=2, queue=4, streams=1, limits=limits)
    served = Served(Server(models, options, folder))
    yield served
    served.stop()


@pytest.fixture(scope="session")
def video(tiny_videos) -> bytes:
    return (tiny_videos.root / "val_0.mp4").read_bytes()


@pytest.fixture(scope="session")
def recognizer(tiny) -> Recognizer:
    return Recognizer(*map(str, tiny), device="cpu")
