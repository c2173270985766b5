"""The demo on cameras and addresses."""

import _thread
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import cv2
import numpy as np
import pytest

from benchmarks.live_server import LiveServer
from mmvidformer.apis import Capture, Prediction, Recognizer

CAPTURE = "mmvidformer.cli.answering.Capture"


def read_lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_demo_of_a_camera(load, model, tiny_videos, tmp_path, monkeypatch) -> None:
    module = load("demo")
    video = tiny_videos.root / "val_0.mp4"
    monkeypatch.setattr(CAPTURE, lambda *_: Capture(video))
    file, out = tmp_path / "predictions.json", tmp_path / "out.mp4"
    options = ["--window", "0.5", "--stride", "0.5", "--seconds", "1.6", "--json", str(file)]
    options += ["--cuts", "none"]  # a frame that may be the first of a shot comes later
    assert module.main([*model, "7", *options, "--out", str(out)]) == 0
    records = read_lines(file)
    assert [[row["start"], row["end"]] for row in records] == [[0, 0.5], [0.5, 1.0], [1.0, 1.5]]
    # A frame is shown as soon as there is a prediction: from the 6th of 20, the end of a window.
    assert cv2.VideoCapture(str(out)).get(cv2.CAP_PROP_FRAME_COUNT) == 15


def test_a_camera_keeps_no_answers(load, model, tiny_videos, monkeypatch) -> None:
    """Of 23 windows the last is drawn, one is taken, one waits, and one is sent."""
    module, kept, most = load("demo"), WeakSet(), []
    video = tiny_videos.root / "val_0.mp4"
    monkeypatch.setattr(CAPTURE, lambda *_: Capture(video))
    predict = Recognizer.predictions_of

    def count(self: Recognizer, *args: object, **where: object) -> list[Prediction]:
        (prediction,) = predict(self, *args, **where)
        scores = Scores(prediction.scores)
        kept.add(scores)
        most.append(len(kept))
        return [replace(prediction, scores=scores)]

    monkeypatch.setattr(Recognizer, "predictions_of", count)
    assert module.main([*model, "7", "--window", "0.16", "--stride", "0.08"]) == 0
    assert len(most) == 23 and max(most) <= 4


class Scores(dict):
    """Scores that a weak set can hold."""

    def __hash__(self) -> int:
        return id(self)


def test_demo_of_an_address(load, model, tmp_path, capsys, monkeypatch) -> None:
    """Windows of 6 frames, every 6; after 16 frames the server begins anew, and then is gone."""
    monkeypatch.setattr("mmvidformer.video.capture.WAIT", 0.02)
    module, file = load("demo"), tmp_path / "predictions.json"
    with LiveServer(16, fps=12, pace=200, connections=2) as server:
        options = ["--window", "0.5", "--stride", "0.5", "--json", str(file)]
        options += ["--queue", "100", "--patience", "0"]
        assert module.main([*model, server.address, *options]) == 1
    *records, failure = read_lines(file)
    begins, ends = zip(*((one["start"], one["end"]) for one in records), strict=True)
    assert begins[:2] == (0, 0.5) and ends[:2] == (0.5, 1)
    assert len(records) == 4 and begins[3] == pytest.approx(begins[2] + 0.5)
    assert {one["video"] for one in records} == {server.address}
    assert "went away after 33 frames" in failure["error"]
    assert "frames dropped: 0, reconnections: 1" in capsys.readouterr().err


def test_what_an_interrupted_stream_has_told(load, model, capsys, monkeypatch) -> None:
    """Frames by the clock that ctrl-C ends: after the 7th window, or before the first is full."""
    module = load("demo")

    def interrupted(self: Capture) -> Iterator:
        yield from ((i, i / 30, np.zeros((48, 64, 3), np.uint8)) for i in range(12))
        _thread.interrupt_main()
        self._closed.wait()

    monkeypatch.setattr(Capture, "frames", interrupted)
    with LiveServer(30, pace=200) as server:
        for window, answers in (("0.2", 7), ("2", 0)):
            options = ["--window", window, "--stride", "0.03"]
            assert module.main([*model, server.address, *options]) == 0
            found = capsys.readouterr()
            assert found.out.count(" s: ") == answers
            assert ("live.ts: no answer in 0.37 s" in found.err) == (not answers)
            assert "frames dropped: 0, reconnections: 0" in found.err
