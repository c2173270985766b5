"""Videos at addresses: which are fetched, and which are not."""

import socket
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mmvidformer.engine.offer_options import Limits, address_prefix
from mmvidformer.errors import UserError
from mmvidformer.video.processes import clean_context
from mmvidformer.web.addresses import fetch_video, is_allowed
from mmvidformer.web.process import AnswerProcess
from mmvidformer.web.rows import answer_rows
from tests.web.bad_models import BadModel

Asked = pytest.importorskip("mmvidformer.web.query").Asked


class Handler(BaseHTTPRequestHandler):
    """A host with a folder of videos, and a secret beside it."""

    def do_GET(self) -> None:
        """Answer."""
        moves = {"/videos/moved": "/videos/a.mp4", "/videos/out": "/secret"}
        if self.path == "/videos/hang":
            time.sleep(60)
        if self.path == "/videos/none":
            self.send_error(404)
        elif self.path in moves:
            self.send_response(302)
            self.send_header("Location", moves[self.path])
            self.end_headers()
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * (600_000 if self.path == "/videos/big" else 9))

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_is_below_a_prefix_is_fetched(host: str, tmp_path: Path) -> None:
    for name in ("a.mp4", "moved"):
        fetch_video(f"{host}/videos/{name}", [f"{host}/videos/"], tmp_path / name, 0.5)
        assert (tmp_path / name).read_bytes() == b"x" * 9


@pytest.mark.parametrize(
    "path, message",
    [
        ("out", "leads to an address that is not allowed"),
        ("big", "a file must have at most 0.5 MB"),
        ("none", "status 404"),
        ("a b", "can't contain control characters"),
    ],
)
def test_what_is_not_fetched(host: str, path: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        fetch_video(f"{host}/videos/{path}", [f"{host}/videos/"], tmp_path / "video", 0.5)


@pytest.mark.parametrize(
    "address, allowed",
    [
        ("https://a.example/clips/b/c.mp4?key=../", True),
        ("https://a.example/clips", False),
        ("https://a.example/other/c.mp4", False),
        ("https://a.example/clips/../c.mp4", False),
        ("https://a.example/clips/%2e%2e/c.mp4", False),
        ("https://a.example/clips/%252e%252e%252fc.mp4", False),
        ("https://a.example/clips/..\\c.mp4", False),
        ("https://a.example@b.example/clips/c.mp4", False),
        ("https://a.example.b.example/clips/c.mp4", False),
        ("http://a.example/clips/c.mp4", False),
        ("file:///etc/passwd", False),
        ("/etc/passwd", False),
    ],
)
def test_addresses_that_are_allowed(address: str, allowed: bool) -> None:
    assert is_allowed(address, ["https://a.example/clips/"]) is allowed
    assert not is_allowed(address, [])


@pytest.mark.parametrize(
    "text", ["https://a.example", "ftp://a/", "https://a@b/", "a/", "http:///"]
)
def test_prefixes_end_with_a_host_or_a_folder(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be as https://HOST/"):
        address_prefix(text)
    assert address_prefix("http://127.0.0.1:90/a/b/") == "http://127.0.0.1:90/a/b/"


def test_a_public_name_does_not_lead_into_a_private_network(host, monkeypatch, tmp_path) -> None:
    """Resolved once, when it is asked: a name that leads elsewhere later gains nothing."""
    port = int(host.rpartition(":")[2])
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, *more, **named: resolve("127.0.0.1", *more, **named)
    )
    for name, is_internal in (("media.example", False), ("media.internal", True)):
        prefix, video = f"http://{name}:{port}/videos/", tmp_path / name
        if is_internal:
            fetch_video(f"{prefix}a.mp4", [prefix], video, 1)
            assert video.read_bytes() == b"x" * 9
        else:
            with pytest.raises(UserError, match="media.example is in a private network"):
                fetch_video(f"{prefix}a.mp4", [prefix], video, 1)


def test_an_address_that_hangs_is_given_up(host: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mmvidformer.web.process._PROCESSES", clean_context())
    process = AnswerProcess({"any": BadModel("none")}, Limits(max_wait=1))
    asked = Asked(address=f"{host}/videos/hang")
    work = answer_rows, tmp_path / "video", "hang", asked, [f"{host}/videos/"]
    with pytest.raises(UserError, match="the video took longer than 1 s and was given up"):
        list(process.ask("any", *work))
    assert process.started is None
