"""Rules on the answers of cameras: when they are fulfilled, and what is done then."""

import json
import shlex
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from mmvidformer.apis import Capture, Prediction
from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.sinks import rules
from mmvidformer.sinks.base import Begun, SinkOptions
from mmvidformer.sinks.rules import Rule, Rules
from mmvidformer.tasks.table import TASKS

CAMERA = "rtsp://door/live"


def answer(start: float, fall: float, length: float = 1.0, video: str = CAMERA) -> Prediction:
    """Answer for a window."""
    shares = {"class": np.array([1 - fall, fall])}
    where = dict(source=video, seconds=(start, start + length), shot=0, task=TASKS["classes"])
    return Prediction(shares, shares, {"class": ["walk", "fall"]}, **where)


def write_command(folder: Path) -> tuple[str, Path]:
    """Return a command that adds its standard input to a file, and the file."""
    script, rows = folder / "add.py", folder / "rows.jsonl"
    script.write_text(
        "import sys\n"
        f"with open({str(rows)!r}, 'ab') as file:\n"
        "    file.write(sys.stdin.buffer.read() + b'\\n')\n"
    )
    return shlex.join([sys.executable, "-IS", str(script)]), rows


def run(rule: Rule, cameras: dict[str, list[Prediction]]) -> None:
    """Pass the answers of cameras to a rule, by turns."""
    with Rules(Path(), SinkOptions(rules=[rule])) as sink:
        parts = {name: sink.begin(Begun(Source(name), fps=10.0)) for name in cameras}
        for predictions in zip(*cameras.values(), strict=True):
            for name, prediction in zip(cameras, predictions, strict=True):
                parts[name].append(prediction)
        for part in parts.values():
            part.end()


@pytest.mark.parametrize(
    ("text", "scores", "starts"),
    [
        ("fall > 0.8", [0.1, 0.9, 0.9], [1]),
        ("fall > 0.8 for 2 s", [0.9, 0.9, 0.1, 0.9, 0.9, 0.9], [5]),
        ("fall>=0.5 for 1s", [0.5, 0.4, 0.5, 0.5], [3]),
        ("fall < 0.5", [0.5, 0.4], [1]),
        ("walk <= 0.25 for 1.5 s", [0.75, 0.75, 0.75], [2]),
        ("fall > 0.8 for 4 s", [0.9, 0.9, 0.9], []),
        ("fall > 0.8", [0.9] * 130, [0, 60, 120]),  # once a minute
    ],
)
def test_when_rules_are_fulfilled(tmp_path, text: str, scores: list, starts: list) -> None:
    """Windows of 1 s, one after the other, of two cameras, of which one sees nothing."""
    command, rows = write_command(tmp_path)
    fall = [answer(start, score) for start, score in enumerate(scores)]
    quiet = [answer(start, 0.3 if ">" in text else 0.6, video="0") for start in range(len(scores))]
    run(Rule.parse(text, command), {CAMERA: fall, "0": quiet})
    found = [json.loads(line) for line in rows.read_text().splitlines()] if starts else []
    assert rows.exists() == bool(starts)
    expected = [fall[start].row() | {"when": text} for start in starts]
    assert sorted(found, key=lambda row: row["start"]) == expected


def test_answers_that_are_far_apart_do_not_join(tmp_path) -> None:
    command, rows = write_command(tmp_path)
    rule = Rule.parse("fall > 0.8 for 2 s", command)
    run(rule, {CAMERA: [answer(0, 0.9), answer(10, 0.9), answer(11, 0.9), answer(12, 0.9)]})
    (row,) = map(json.loads, rows.read_text().splitlines())
    assert row["start"] == 12


class Hook(BaseHTTPRequestHandler):
    """Keeps what is posted to /good; another path does not exist."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.headers["Content-Type"], json.loads(content)))
        self.send_response(200 if self.path == "/good" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_rows_are_posted_and_errors_are_printed(tmp_path, capsys) -> None:
    """An address that refuses, one where nobody listens, and commands that fail end nothing."""
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        server.posted = []
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        answers = [answer(0, 0.9)]
        for path in ("/good", "/bad?token=secret"):
            run(Rule.parse("fall > 0.8", address + path), {CAMERA: answers})
        server.shutdown()
    row = json.loads(json.dumps(answers[0].row() | {"when": "fall > 0.8"}))
    assert server.posted == [("application/json", row)] * 2 and row["video"] == CAMERA
    run(Rule.parse("fall > 0.8", address), {CAMERA: answers})
    run(Rule.parse("fall > 0.8", f"{sys.executable} -c 'raise SystemExit(3)'"), {CAMERA: answers})
    printed = capsys.readouterr().err
    assert f"--then {address}/bad: HTTP Error 404" in printed and "secret" not in printed
    assert "refused" in printed and "non-zero exit status 3" in printed
    assert "Traceback" not in printed


def test_a_command_that_hangs_is_ended(monkeypatch, capsys) -> None:
    monkeypatch.setattr(rules, "LIMIT", 0.2)
    command = f"{sys.executable} -c 'import time; time.sleep(600)'"
    run(Rule.parse("fall > 0.8", command), {CAMERA: [answer(0, 0.9)]})
    assert "timed out after 0." in capsys.readouterr().err


def test_a_clip_has_the_seconds_before(tmp_path) -> None:
    """Of 30 s of 20 frames a second, of which frame i is i / 3 bright: 10 pictures a second."""
    rule = Rule.parse("fall > 0.8", str(tmp_path / "fall.mp4"))
    with Rules(Path(), SinkOptions(rules=[rule])) as sink:
        part = sink.begin(Begun(Source(CAMERA), fps=20.0))
        for number in range(600):
            part.see(number, number / 20, np.full((481, 1280, 3), number // 3, np.uint8))
        part.append(answer(29, 0.9))
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("fall_rtsp___door_live_20") and path.suffix == ".mp4"
    with Capture(path) as clip:
        pictures = [pixels for _, _, pixels in clip.frames()]
        assert clip.fps == 10
    assert pictures[0].shape == (240, 640, 3) and len(pictures) in (100, 101)
    for before, pixels in enumerate(reversed(pictures)):
        assert abs(pixels.mean() - (598 - 2 * before) // 3) < 4


@pytest.mark.parametrize(
    ("text", "action", "message"),
    [
        ("fall", "x.mp4", "--when is such as 'fall > 0.8 for 2 s', got 'fall'"),
        ("fall > much", "x.mp4", "--when is such as"),
        ("fall > 1.2.3", "x.mp4", "--when is such as"),
        ("fall > 1", "no-such-command now", "--then is an http address, a command that is there"),
        ("fall > 1", "", "--then is an http address"),
        ("fall > 1", "sh 'x", "--then sh 'x: No closing quotation"),
    ],
)
def test_wrong_rules_are_named(text: str, action: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        Rule.parse(text, action)


def test_a_class_that_the_model_lacks_is_named() -> None:
    with pytest.raises(UserError, match="the model has no 'fell', but walk, fall"):
        Rule.parse("fell > 0.8", "x.mp4").check_names({"class": ["walk", "fall"]})
