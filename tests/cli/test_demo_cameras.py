"""The demo on several cameras at once."""

import _thread
import json
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from benchmarks.live_server import LiveServer
from mmvidformer.cli import answering
from mmvidformer.errors import UserError
from mmvidformer.video import capture, connection

FRAMES, WINDOW = 24, 6  # of a camera, in frames
OPTIONS = ["--window", "0.5", "--stride", "0.5", "--queue", "100", "--patience", "0"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "WAIT", 0.02)
    monkeypatch.setattr(connection, "SILENCE", 100.0)


def cameras(stack: ExitStack, count: int) -> list[LiveServer]:
    """Start servers of pictures that grow brighter, each one faster than the last."""
    return [
        stack.enter_context(LiveServer(FRAMES, fps=12, pace=60 + 5 * number, connections=1))
        for number in range(count)
    ]


def rows_by_camera(file: Path) -> dict[str, list[dict]]:
    """Read JSON lines, by the source that each names."""
    rows = defaultdict(list)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        rows[row["video"]].append(row)
    return rows


@pytest.fixture(scope="module")
def alone(load, model, tmp_path_factory) -> list[list[tuple[str, float]]]:
    """The classes and scores of the windows of one camera."""
    file = tmp_path_factory.mktemp("alone") / "rows.jsonl"
    with LiveServer(FRAMES, fps=12, pace=200, connections=1) as server:
        load("demo").main([*model, server.address, *OPTIONS, "--json", str(file)])
    *rows, failure = rows_by_camera(file)[server.address]
    assert "went away after 24 frames" in failure["error"]
    return [[(best["label"], best["score"]) for best in row["top"]] for row in rows]


def check_equal(rows: list[dict], alone: list[list[tuple[str, float]]]) -> None:
    """Check that the windows of a camera, which then went away, are answered as if alone."""
    *rows, failure = rows
    assert "error" in failure and len(rows) == len(alone) == FRAMES // WINDOW
    for row, expected in zip(rows, alone, strict=True):
        found = {best["label"]: best["score"] for best in row["top"]}
        assert found == pytest.approx(dict(expected), abs=2e-4)


@pytest.mark.parametrize("count", [1, 4, 16])
def test_cameras_are_answered_at_once(load, model, alone, tmp_path, capsys, count: int) -> None:
    """Each as if it were alone; a number of windows goes through the model together."""
    file = tmp_path / "rows.jsonl"
    with ExitStack() as stack:
        addresses = [server.address for server in cameras(stack, count)]
        assert load("demo").main([*model, *addresses, *OPTIONS, "--json", str(file)]) == 1
    rows = rows_by_camera(file)
    assert sorted(rows) == sorted(addresses)
    for of_camera in rows.values():
        check_equal(of_camera, alone)
    told = capsys.readouterr().err
    for address in addresses:
        assert f"{address}: latency" in told
    assert told.count("frames dropped: 0, reconnections: 0") == count


def end_when(file: Path, rows: int, *ends: Callable[[], object]) -> Thread:
    """Call functions once a file has some rows; the thread that does it."""

    def wait_and_end() -> None:
        until = time.monotonic() + 120
        while len(file.read_text().splitlines() if file.exists() else ()) < rows:
            assert time.monotonic() < until, "no answers beside a camera that hangs"
            time.sleep(0.02)
        for end in ends:
            end()

    thread = Thread(target=wait_and_end)
    thread.start()
    return thread


def test_cameras_that_stall_or_go_away_delay_no_other(load, model, alone, tmp_path) -> None:
    """One never answers, one stalls after a frame, one ends early, and one comes back.

    The first two last until the others have all their answers.
    """
    file = tmp_path / "rows.jsonl"
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stalled = stack.enter_context(LiveServer(FRAMES, fps=12, pace=0.001, connections=1))
        short = stack.enter_context(LiveServer(WINDOW, fps=12, pace=60, connections=1))
        back = stack.enter_context(LiveServer(WINDOW, fps=12, pace=60, connections=2))
        good = [server.address for server in cameras(stack, 3)]
        unanswered = f"http://127.0.0.1:{silent.getsockname()[1]}/x.ts"
        addresses = [unanswered, stalled.address, short.address, back.address, *good]
        rows = 3 * (FRAMES // WINDOW + 1) + (1 + 1) + (2 + 1)
        thread = end_when(file, rows, silent.close, stalled._closed.set)
        assert load("demo").main([*model, *addresses, *OPTIONS, "--json", str(file)]) == 1
        thread.join()
    rows = rows_by_camera(file)
    for address in good:
        check_equal(rows[address], alone)
    assert [["error" in row for row in rows[address]] for address in addresses[:4]] == [
        [True],
        [True],
        [False, True],
        [False, False, True],
    ]
    assert "cannot open" in rows[unanswered][0]["error"]


def test_an_interruption_does_not_wait_for_a_camera_that_hangs(
    load, model, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(answering, "LAST", 0.5)
    file = tmp_path / "rows.jsonl"
    with ExitStack() as stack:
        stalled = stack.enter_context(LiveServer(FRAMES, fps=12, pace=0.001, connections=1))
        good = stack.enter_context(LiveServer(5000, fps=12, pace=60, connections=1))
        thread = end_when(file, 3, _thread.interrupt_main)
        addresses = [stalled.address, good.address]
        assert load("demo").main([*model, *addresses, *OPTIONS, "--json", str(file)]) == 0
        thread.join()
    assert set(rows_by_camera(file)) == {good.address}


def test_rules_of_cameras(load, model, tmp_path) -> None:
    """Each camera has its own clip, of what came before; wrong rules are named at once."""
    main, when = load("demo").main, ["--when", "red >= 0 for 0.5 s"]
    with ExitStack() as stack:
        addresses = [server.address for server in cameras(stack, 2)]
        then = ["--then", str(tmp_path / "clips" / "red.mp4")]
        assert main([*model, *addresses, *OPTIONS, *when, *then]) == 1
        clips = list((tmp_path / "clips").iterdir())
        for server in addresses:
            (path,) = [clip for clip in clips if server.split(":")[-1].split("/")[0] in clip.name]
            with capture.Capture(path) as clip:
                assert len(list(clip.frames())) >= 1
        with pytest.raises(UserError, match="the model has no 'pink', but red, green, blue"):
            main([*model, *addresses, "--when", "pink > 0", *then])
    with pytest.raises(UserError, match="each --when needs a --then, got 1 and 0"):
        main([*model, "0", *when])
