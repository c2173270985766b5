"""The server as clients see it, good and hostile ones."""

import os
import re
import signal
import socket
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from mmvidformer.engine.offer_options import ServeOptions
from tests.video.numbered_videos import write as encode
from tests.web.serving import Served, expected_rows, hurry, no_restart, wait_for

Server = pytest.importorskip("mmvidformer.web.server").Server
pytestmark = pytest.mark.usefixtures("forked")


def form(video: bytes, title: str) -> tuple[bytes, dict[str, str]]:
    """A form with a file, as browsers and ``curl -F`` send it, and its header."""
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{title}"\r\n\r\n'
    body = head.encode() + video + b"\r\n--x--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize(
    "query, options", [("", {}), ("&window=1&stride=0.5&cuts=none", dict(window=1, stride=0.5))]
)
def test_rows_are_those_of_a_recognizer(
    served, video, recognizer, tiny_videos, query: str, options: dict
) -> None:
    expected = expected_rows(recognizer, tiny_videos, **options)
    assert len(expected) == (3 if options else 1)
    for reply in (
        served.ask(f"/predict?name=a.mp4{query}", video),
        served.ask(f"/predict?model=other{query}", *form(video, "a.mp4")),
    ):
        assert reply.status == 200 and reply.rows == expected


def test_it_tells_about_itself(served) -> None:
    assert served.ask("/health").rows == [{"status": "ok"}]
    (models,) = served.ask("/models").rows
    assert [*models] == ["tiny", "other"]
    assert models["tiny"]["answers_for"] == "windows"
    assert models["tiny"]["classes"] == {"class": ["red", "green", "blue"]}
    assert models["tiny"]["options"] == ["cuts", "stride", "window"]
    (openapi,) = served.ask("/openapi.json").rows
    predict = openapi["paths"]["/predict"]["post"]
    names = [parameter["name"] for parameter in predict["parameters"]]
    assert names[:3] == ["model", "window", "stride"] and "boxes" not in names


def sample(served: Served, name: str) -> float:
    """Return a number of ``/metrics``."""
    for line in served.ask("/metrics").rows:
        if line.startswith(f"{name} "):
            return float(line.split()[-1])
    return 0


def test_requests_are_counted_for_prometheus(served, video) -> None:
    answered = 'mmvidformer_requests_total{path="/predict",status="200"}'
    before = sample(served, answered), sample(served, "mmvidformer_answer_seconds_count")
    served.ask("/predict", video)
    after = sample(served, answered), sample(served, "mmvidformer_answer_seconds_count")
    assert after == (before[0] + 1, before[1] + 1)
    assert sample(served, "mmvidformer_requests_waiting") == 0
    lines = served.ask("/metrics").rows
    pattern = r'(# TYPE \w+ (counter|gauge|histogram)|\w+(\{(\w+="[^"]*",?)+\})? [\d.e+-]+)'
    assert all(re.fullmatch(pattern, line) for line in lines)


@pytest.mark.parametrize(
    "query, status, message",
    [
        ("?model=timy", 404, "no model named 'timy'; there are tiny, other"),
        ("?window=0", 422, "window: must be a number above 0, got '0'"),
        ("?window=1&boxes=/etc/passwd", 422, "no option named 'boxes'"),
        ("?cuts=no", 422, "cuts must be one of content, none, got 'no'"),
        ("?min_score=0.5", 422, "models of windows take no min_score, got 0.5"),
        ("?track=yes", 422, "track must be one of true, 1, false, 0, got 'yes'"),
        ("?address=file:///etc/passwd", 403, "fetches no videos from that address"),
        ("?top=0", 422, "top: must be a whole number of at least 1"),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(served, video, query, status, message) -> None:
    reply = served.ask(f"/predict{query}", video)
    assert reply.status == status and message in reply.rows[0]["error"]


def bomb() -> bytes:
    """A small file with a large frame."""
    path = Path(tempfile.mkdtemp()) / "bomb.ts"
    encode(path, "libx264", range(2), size=(4096, 2320), preset="ultrafast")
    return path.read_bytes()


@pytest.mark.parametrize(
    "change, status, message",
    [
        (lambda video: video[:700], 422, "video.mp4: it "),
        (lambda video: video[:1], 422, "video.mp4: it "),
        (lambda video: b"", 422, "video.mp4: the file is empty"),
        (lambda video: b"<html><body>not found</body></html>", 422, "video.mp4: "),
        (lambda video: b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", 422, "video.mp4: it is"),
        (lambda video: b"ffconcat version 1.0\nfile /etc/passwd\n", 422, "its format is none of"),
        (lambda video: bytes(600_000), 413, "at most 0.5 MB, got 0.6 MB"),
        (lambda video: bomb(), 422, "frames must have at most 9437184 pixels"),
    ],
    ids=["cut", "byte", "empty", "html", "playlist", "script", "large", "bomb"],
)
def test_hostile_files_are_refused_and_the_next_answered(
    served, video, change, status, message
) -> None:
    content = change(video)
    for reply in (
        served.ask("/predict?name=x.mp4", content),
        served.ask("/predict", *form(content, "x.mp4")),
    ):
        assert reply.status == status and message in reply.rows[0]["error"]
        assert str(served.server.folder) not in reply.rows[0]["error"]
    assert served.ask("/predict", video).status == 200


def test_a_model_whose_process_ends_is_loaded_again(served, video, recognizer, tiny_videos) -> None:
    process, _ = served.server.shared[0].process.started
    with no_restart():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        reply = served.ask("/predict", video)
    assert (reply.status, reply.rows) == (
        500,
        [{"error": "the process of the model has ended, and starts again"}],
    )
    wait_for(lambda: served.ask("/predict?name=a.mp4", video).status == 200)
    reply = served.ask("/predict?name=a.mp4", video)
    assert reply.rows == expected_rows(recognizer, tiny_videos)


def test_what_hangs_or_crashes_is_ended_and_the_next_answered(served, video) -> None:
    before = sample(served, "mmvidformer_processes_killed_total")
    crashed = served.ask("/predict?name=a.crash", video)
    message = "the video crashed the process that reads it (SIGSEGV)"
    assert crashed.status == 500 and crashed.rows == [{"error": message}]
    wait_for(lambda: len(*served.server.pool._idle) == 2)
    with hurry(1, *served.server.pool.processes):
        given_up = served.ask("/predict?name=a.hang", video)
    message = "the video took longer than 1 s and was given up"
    assert given_up.status == 500 and given_up.rows == [{"error": message}]
    replies = [served.ask("/predict", video) for _ in range(3)]
    assert [reply.status for reply in replies] == [200] * 3
    assert sample(served, "mmvidformer_processes_killed_total") == before + 2


def test_an_error_after_the_first_row_is_the_last_row(served, video) -> None:
    reply = served.ask("/predict?name=a.late&window=1", video)
    assert reply.status == 200
    assert reply.rows[-1] == {"video": "a.late", "error": "video.late: it ends too early"}
    assert all("label" in row for row in reply.rows[:-1])


def test_names_of_clients_are_no_paths_of_the_server(served, video) -> None:
    name = quote("../../etc/pass\nwd.mp4")
    (row,) = served.ask(f"/predict?name={name}", video).rows
    assert row["video"] == "../../etc/pass\nwd.mp4"
    wait_for(lambda: not [*served.server.folder.iterdir()])


def test_ten_times_the_load_is_answered_or_refused(served, video, recognizer, tiny_videos) -> None:
    """2 processes and 4 places: 60 at once; none is lost, none is wrong, and who waits is told."""
    (expected,) = expected_rows(recognizer, tiny_videos)
    with ThreadPoolExecutor(60) as threads:
        replies = list(threads.map(lambda _: served.ask("/predict?name=a.mp4", video), range(60)))
    counts = Counter(reply.status for reply in replies)
    assert counts.keys() == {200, 503} and counts[200] >= 6
    for reply in replies:
        if reply.status == 200:
            assert reply.rows == [expected]
        else:
            assert int(reply.headers["Retry-After"]) >= 1
            assert reply.rows[0]["error"].startswith("4 requests wait already; try again in ")
    wait_for(lambda: served.server.pool.inside == 0)


@pytest.mark.parametrize("query, bytes_read", [("name=a.slow", 0), ("name=b.slow&window=0.2", 300)])
def test_a_client_who_leaves_ends_its_work(
    served, video, recognizer, tiny_videos, query: str, bytes_read: int
) -> None:
    """After the part that is in work; the next one gets its own answer."""
    head = f"POST /predict?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(video)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head.encode() + video)
        connection.settimeout(300)
        while bytes_read > 0:
            bytes_read -= len(connection.recv(bytes_read))
        wait_for(lambda: served.server.pool.running == 1)
    wait_for(lambda: served.server.pool.inside == 0)
    assert not [*served.server.folder.iterdir()]
    expected = expected_rows(recognizer, tiny_videos)
    for _ in range(3):
        assert served.ask("/predict?name=a.mp4", video).rows == expected


def test_uploads_that_stop_or_break_off_are_given_up(served, video, monkeypatch) -> None:
    monkeypatch.setattr("mmvidformer.web.uploads.PATIENCE", 0.1)  # the rest never comes
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\nxx"
    with socket.create_connection(("127.0.0.1", served.port)) as other:
        other.sendall(head)
        with socket.create_connection(("127.0.0.1", served.port)) as gone:
            gone.sendall(head)
            wait_for(lambda: served.server.pool.inside == 2)
        wait_for(lambda: served.server.pool.inside == 1)
    wait_for(lambda: served.server.pool.inside == 0)
    address = "127.0.0.1", served.port
    with hurry(0.1, served.server), socket.create_connection(address) as slow:
        slow.sendall(head)
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
    wait_for(lambda: not [*served.server.folder.iterdir()])


def test_large_headers_and_uploads_of_unknown_length_are_refused(served, monkeypatch) -> None:
    monkeypatch.setattr("mmvidformer.web.uploads.PATIENCE", 0.1)  # what is refused never ends
    for head, status in (
        (b"X: " + b"x" * 200_000, b"400"),
        (b"Transfer-Encoding: chunked", b"411"),
        (b"Content-Length: -1", b"400"),
    ):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 " + status)


def test_the_end_waits_for_what_came_before(models, video, tmp_path) -> None:
    """And a token is needed where one is set."""
    options = ServeOptions(workers=1, queue=2)
    served = Served(Server(models, options, tmp_path, token="secret-token"))
    try:
        for headers in ({}, {"Authorization": "Bearer secret-tokem"}):
            assert served.ask("/predict", video, headers).status == 401
            assert served.ask("/models", None, headers).status == 401
            assert served.ask("/metrics", None, headers).status == 401
        assert served.ask("/health").status == 200
        token = {"Authorization": "Bearer secret-token"}
        with ThreadPoolExecutor(2) as threads:
            ask = "/predict?name=a.slow", video
            asked = [threads.submit(served.ask, *ask, token) for _ in range(2)]
            wait_for(lambda: served.server.pool.inside == 2)
            served.http.should_exit = True
            assert [reply.result().status for reply in asked] == [200, 200]
    finally:
        served.stop()


def test_only_health_and_the_description_need_no_token(models, tmp_path) -> None:
    from fastapi.testclient import TestClient

    from mmvidformer.web.app import build_app

    app = build_app(Server(models, ServeOptions(workers=1), tmp_path, token="secret-token"))
    client = TestClient(app)
    statuses = {
        (method, route.path): client.request(method, route.path.format(key="a")).status_code
        for route in app.routes
        for method in route.methods
    }
    refused = {path for (_, path), status in statuses.items() if status == 401}
    assert refused == {"/predict", "/streams", "/streams/{key}", "/models", "/metrics"}
    answered = {path for _, path in statuses} - refused
    assert answered == {"/health", "/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"}
    assert {statuses["POST", "/streams/{key}"], statuses["DELETE", "/streams/{key}"]} == {401}
