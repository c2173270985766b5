"""The example of Ray Serve: two replicas answer as a recognizer does."""

import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from mmvidformer.apis import Recognizer

ray = pytest.importorskip("ray")
serve = pytest.importorskip("ray.serve")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
VIDEO = ROOT / "mmvidformer" / "weights" / "camera_motion.mp4"


@pytest.fixture
def address(monkeypatch) -> Iterator[str]:
    """Where the example answers."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'examples'}")  # of the replicas
    from ray_serve import app

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    handler = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    ray.init(num_cpus=2, include_dashboard=False)
    serve.start(http_options=dict(port=port))
    serve.run(app, route_prefix="/predict")
    yield f"http://127.0.0.1:{port}/predict"
    serve.shutdown()
    ray.shutdown()
    signal.signal(signal.SIGTERM, handler)


def test_two_replicas_answer_as_a_recognizer(address: str) -> None:
    states = serve.status().applications["default"].deployments["Answers"].replica_states
    assert states == {"RUNNING": 2}
    recognizer, content = Recognizer("camera_motion", device="cpu"), VIDEO.read_bytes()

    def ask(query: str) -> list[dict]:
        with urlopen(address + query, content, timeout=600) as answer:
            rows = [json.loads(line) for line in answer]
        assert all(row.pop("video") for row in rows)
        return rows

    for query, options in (("", {}), ("?window=2", dict(window=2))):
        expected = [prediction.row(5) for prediction in recognizer.answers(VIDEO, **options)]
        assert all(row.pop("video") for row in expected)
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, [query] * 8)) == [expected] * 8
    with pytest.raises(HTTPError) as caught:
        ask("?windw=2")
    assert caught.value.code == 422 and b"take no windw" in caught.value.read()
