"""Streams of clients: frames in, rows out."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mmvidformer.apis import Recognizer
from mmvidformer.errors import LostProcess
from mmvidformer.video.video import Video
from mmvidformer.web.query import read_query
from mmvidformer.web.running_stream import RunningStream
from tests.web.serving import Served

OPTIONS = dict(window=0.5, stride=0.25)
QUERY = "window=0.5&stride=0.25"


@pytest.fixture
def frames(tiny_videos) -> list[np.ndarray]:
    video = Video.open(str(tiny_videos.root / "val_0.mp4"))
    return video.frames(range(len(video)))


@pytest.fixture
def fps(tiny_videos) -> float:
    return Video.open(str(tiny_videos.root / "val_0.mp4")).get_avg_fps()


@contextmanager
def opened(served: Served, query: str) -> Iterator[str]:
    """Open a stream, and end it."""
    reply = served.ask(f"/streams?{query}", b"")
    assert reply.status == 200, reply
    path = f"/streams/{reply.rows[0]['stream']}"
    yield path
    served.ask(path, method="DELETE")


def rows_of_stream(recognizer: Recognizer, frames: Any, fps: float) -> list[dict]:
    return [row.row(5) for row in recognizer.stream(iter(frames), fps, **OPTIONS)]


def png(frame: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG")
    return file.getvalue()


def test_rows_are_those_of_a_stream_of_a_recognizer(served, recognizer, frames, fps, video) -> None:
    """Of pictures and of a short video; each row comes with the piece that completes it."""
    expected = rows_of_stream(recognizer, frames, fps)
    assert len(expected) > 2
    with opened(served, f"{QUERY}&fps={fps}") as path:
        replies = [served.ask(f"{path}?name=cam", png(frame)) for frame in frames]
        ended = served.ask(f"{path}?name=cam", method="DELETE")
        assert {reply.status for reply in (*replies, ended)} == {200}
        rows = [row for reply in (*replies, ended) for row in reply.rows]
        assert rows == [row | {"video": "cam"} for row in expected]
        assert len(replies[-1].rows) <= 1
        assert served.ask(path, png(frames[0])).status == 404
    with opened(served, f"{QUERY}&fps={fps}&top=2") as path:
        rows = served.ask(f"{path}?name=cam", video).rows
        cut = [dict(row, video="cam", top=row["top"][:2]) for row in expected]
        assert rows == cut[: len(rows)] and len(rows) > 2


def test_a_bad_piece_does_not_end_a_stream(served, recognizer, frames, fps) -> None:
    expected = rows_of_stream(recognizer, frames, fps)
    with opened(served, f"{QUERY}&fps={fps}") as path:
        rows = []
        for number, frame in enumerate(frames):
            rows += served.ask(path, png(frame)).rows
            if number == 2:
                for content, message in (
                    (png(frame)[:-30], "the picture is damaged, cut off, or huge"),
                    (b"<html>", "it is damaged, cut off, or no video"),
                    (b"", "the file is empty"),
                    (png(frame[:20, :30]), "a stream has frames of {}, not (20, 30, 3)"),
                    (bytes(600_000), "at most 0.5 MB"),
                ):
                    reply = served.ask(path, content)
                    assert reply.status in (413, 422)
                    assert message.format(frame.shape) in reply.rows[0]["error"]
        assert [row["score"] for row in rows] == [row["score"] for row in expected[: len(rows)]]
        assert len(rows) > 2


def test_a_stream_that_failed_takes_no_more_pieces(recognizer, frames, monkeypatch) -> None:
    def fail(self: Recognizer, frames: Iterator, *args: object, **options: object) -> Iterator:
        yield from ()
        for _ in frames:
            raise RuntimeError("a bug")

    monkeypatch.setattr(Recognizer, "stream", fail)
    stream = RunningStream(recognizer, read_query({"fps": "5"}))
    assert list(stream.push(())) == []
    with pytest.raises(RuntimeError, match="a bug"):
        list(stream.push(frames))
    for _ in range(2):
        with pytest.raises(LostProcess, match="the stream has ended by an error"):
            list(stream.push(frames))
    assert list(stream.push(None)) == []


def test_streams_are_limited_and_idle_ones_end(served, frames, monkeypatch) -> None:
    assert served.ask("/streams/other", png(frames[0])).status == 404
    for query, message in (("", "frame rate of the frames is unknown"), ("fps=0", "fps: must be")):
        reply = served.ask(f"/streams?{query}", b"")
        assert reply.status == 422 and message in reply.rows[0]["error"]
    assert served.ask("/predict?fps=3", b"x").status == 422
    with opened(served, "fps=5") as first:
        full = served.ask("/streams?fps=5", b"")
        assert full.status == 503 and full.headers["Retry-After"] == "60"
        monkeypatch.setattr(served.server.streams, "idle", 0.0)
        with opened(served, "fps=5") as second:
            assert served.ask(first, png(frames[0])).status == 404
            assert served.ask(second, png(frames[0])).status == 200
            assert "mmvidformer_streams_open 1" in served.ask("/metrics").rows
    assert "mmvidformer_streams_open 0" in served.ask("/metrics").rows
