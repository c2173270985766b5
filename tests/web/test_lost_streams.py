"""Streams of a server whose processes are killed."""

import io
import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from PIL import Image

from mmvidformer import get_config
from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import ServeOptions
from mmvidformer.registry import MODELS
from mmvidformer.web.models import Model
from tests.web.serving import Served, no_restart, wait_for

FRAMES = 12
KEYS = ("video", "start", "end", "label")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    """A recurrent model."""
    folder = tmp_path_factory.mktemp("recurrent")
    cfg: Config = get_config("causal_transformer_early_motion")
    cfg.dump(folder / "model.py")
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        state = MODELS.build(cfg.model).state_dict()
    torch.save({"state_dict": state}, folder / "model.pth")
    return Model(
        config=str(folder / "model.py"), checkpoint=str(folder / "model.pth"), device="cpu"
    )


@pytest.fixture(scope="module")
def served(model, tmp_path_factory, forked) -> Iterator[Served]:
    """A server of two streams at most."""
    Server = pytest.importorskip("mmvidformer.web.server").Server
    options = ServeOptions(workers=1, streams=2)
    served = Served(Server({"model": model}, options, tmp_path_factory.mktemp("server")))
    yield served
    served.stop()


def pictures(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (FRAMES, 48, 64, 3), np.uint8)


@pytest.fixture(scope="module")
def expected(model) -> list[list[dict]]:
    recognizer: Recognizer = model.load()
    streams = [recognizer.stream(pictures(seed), 30) for seed in range(2)]
    return [[row.row(5) | {"video": "cam"} for row in rows] for rows in streams]


class Client:
    """A stream of pictures, and its rows."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served, self.rows = served, list[dict]()
        reply = served.ask("/streams?fps=30", b"")
        assert reply.status == 200, reply
        self.path = f"/streams/{reply.rows[0]['stream']}?name=cam"
        self._pictures = iter(pictures(seed))

    def send(self, count: int) -> tuple[int, list[dict]]:
        """Send pictures; return the last answer."""
        for _ in range(count):
            file = io.BytesIO()
            Image.fromarray(next(self._pictures)).save(file, "PNG")
            reply = self.served.ask(self.path, file.getvalue())
            self.rows += reply.rows
        return reply.status, reply.rows


def check_rows(found: list[dict], expected: list[dict]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert [one[x] for x in KEYS] == [other[x] for x in KEYS]
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def kill(started: tuple) -> None:
    process, _ = started
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def test_a_reader_that_is_killed_ends_its_stream_alone(served, expected) -> None:
    one, other = Client(served, 0), Client(served, 1)
    one.send(4), other.send(4)
    streams = served.server.streams._streams
    kill(streams[one.path[9:].partition("?")[0]].pool.processes[0].started)
    reason = "the stream has ended with its process"
    assert one.send(1) == (500, [{"error": reason}])
    assert one.send(1) == (404, [{"error": "there is no such stream, or it has ended"}])
    other.send(4)
    again = Client(served, 0)  # there is a place for it
    again.send(FRAMES), other.send(4)
    check_rows(again.rows, expected[0])
    check_rows(other.rows, expected[1])
    for client in (again, other):
        assert served.ask(client.path, method="DELETE").status == 200


def test_a_model_that_is_killed_ends_its_streams_and_answers_the_next(served, expected) -> None:
    clients = Client(served, 0), Client(served, 1)
    for client in clients:
        client.send(4)
    shared = served.server.shared[0].process
    old = shared.started
    with no_restart():
        kill(old)
        for client in clients:
            reason = "the process of the model has ended, and starts again"
            assert client.send(3) == (500, [{"error": reason}])  # the next step, of 0.1 s
            assert client.send(1)[0] == 404
    wait_for(lambda: shared.started not in (old, None) and shared._is_idle)
    for client, rows in zip([Client(served, seed) for seed in range(2)], expected, strict=True):
        client.send(FRAMES)
        check_rows(client.rows, rows)
        assert served.ask(client.path, method="DELETE").status == 200
