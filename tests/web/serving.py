"""A server in this process, and what its tests ask of it."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.error import HTTPError

import pytest

from mmvidformer.apis import Recognizer
from mmvidformer.web import shared_models


class Reply(NamedTuple):
    """What a server returned."""

    status: int
    rows: list[dict]
    headers: Mapping[str, str]


class Served:
    """A server in a thread of this process, and how it is asked."""

    def __init__(self, server: Any) -> None:
        self.server = server
        import uvicorn

        from mmvidformer.web.app import build_app

        server.start()
        config = uvicorn.Config(build_app(server), port=0, log_level="error", lifespan="off")
        self.http = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.http.run)
        self.thread.start()
        while not self.http.started:
            time.sleep(0.01)
        self.port = self.http.servers[0].sockets[0].getsockname()[1]

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        /,
        headers: Mapping[str, str] = {},
        method: str | None = None,
    ) -> Reply:
        """Send a request."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            request = urllib.request.Request(url, body, headers, method=method)
            answer = urllib.request.urlopen(request, timeout=900)
        except HTTPError as error:
            answer = error
        with answer:
            text = answer.read().decode()
        is_json = "json" in answer.headers["Content-Type"]
        rows = [json.loads(line) if is_json else line for line in text.splitlines()]
        return Reply(answer.status, rows, answer.headers)

    def stop(self) -> None:
        """End it as SIGTERM does."""
        self.http.should_exit = True
        self.thread.join(300)
        assert not self.thread.is_alive()
        self.server.kill()
        assert not [*self.server.folder.iterdir()]


def expected_rows(recognizer: Recognizer, tiny_videos, **options: Any) -> list[dict]:
    """Rows of a recognizer in this process."""
    predictions = recognizer.answers(str(tiny_videos.root / "val_0.mp4"), **options)
    return [prediction.row(5) | {"video": "a.mp4"} for prediction in predictions]


@contextmanager
def hurry(seconds: float, *waiting: Any) -> Iterator[None]:
    """Let a server give up after so long of an upload that never ends, or processes of a work."""
    with pytest.MonkeyPatch.context() as patch:
        for one in waiting:
            patch.setattr(one, "limits", replace(one.limits, max_wait=seconds))
        yield


@contextmanager
def no_restart() -> Iterator[None]:
    """Let no process of models start again until the end, and then at once."""
    may_start = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_models, "time", SimpleNamespace(sleep=lambda pause: may_start.wait()))
        try:
            yield
        finally:
            may_start.set()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds, at most five minutes."""
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
