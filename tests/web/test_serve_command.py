"""The command ``serve``, and the examples of its page in the docs."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from mmvidformer.apis import Recognizer
from mmvidformer.errors import UserError
from tests.docs.blocks import read_blocks

pytest.importorskip("fastapi")
ROOT = Path(__file__).parents[2]
VIDEO = ROOT / "mmvidformer" / "weights" / "camera_motion.mp4"


@pytest.fixture(scope="module")
def port(run, tmp_path_factory) -> Iterator[int]:
    """The port of the command; SIGTERM ends it, and nothing is left."""
    folder = tmp_path_factory.mktemp("serve")
    command = [sys.executable, "-m", "mmvidformer", "serve", "camera_motion", "--port", 0]
    process = run(*command, "--streams", 1, TMPDIR=folder)
    for line in process.stdout:
        if found := re.fullmatch(r"http://127.0.0.1:(\d+) answers\n", line):
            break
    else:
        pytest.fail("it does not say that it answers")
    port = int(found[1])
    urlopen(f"http://127.0.0.1:{port}/health", timeout=60).close()  # it does, once it says so
    yield port
    process.send_signal(signal.SIGTERM)
    try:
        printed, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0 and "Traceback" not in printed, printed
    assert not [*folder.glob("mmvidformer*")]


@pytest.fixture(scope="module")
def expected() -> list[dict]:
    """Rows of the windows of the example, by a ``Recognizer``."""
    predictions = Recognizer("camera_motion", device="cpu").answers(VIDEO, window=2)
    return [prediction.row(5) for prediction in predictions]


EXAMPLES = [
    block
    for block in read_blocks(ROOT / "docs" / "serve.md", ROOT)
    if block.language in ("python", "js") or "curl" in block.text
]


@pytest.mark.parametrize("block", EXAMPLES, ids=[block.language for block in EXAMPLES])
def test_examples_of_the_docs(port: int, expected, block, tmp_path: Path) -> None:
    programs = {"bash": ["bash"], "python": [sys.executable], "js": ["node"]}
    files = {"bash": "example.sh", "python": "example.py", "js": "example.mjs"}
    (program,) = programs[block.language]
    for name in (program, "curl" if "curl" in block.text else program):
        if shutil.which(name) is None:
            pytest.skip(f"no {name} here")
    shutil.copy(VIDEO, tmp_path / "video.mp4")
    script = tmp_path / files[block.language]
    script.write_text(block.text.replace(":8000/", f":{port}/"))
    result = subprocess.run(
        [program, script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = result.stdout.splitlines()
    if "/streams" in block.text:
        rows = [json.loads(line) for line in lines]
        assert len(rows) > 3 and {row["video"] for row in rows} == {"camera"}
        assert [row["end"] - row["start"] for row in rows] == [2.0] * len(rows)
        return
    if block.language != "bash":
        for line, row in zip(lines, expected, strict=True):
            start, *label, score = line.split(" ")
            assert (float(start), float(score)) == (row["start"], row["score"])
            assert " ".join(label) == row["label"]
        return
    whole, *windows = map(json.loads, lines)
    assert whole["video"] == "video.mp4" and whole["start"] is None
    for row, other in zip(windows, expected, strict=True):
        assert row == other | {"video": "video.mp4", "top": other["top"][:3]}


def test_only_this_machine_is_served(port: int) -> None:
    with socket.socket() as other:
        # An address of this machine that reaches servers at 0.0.0.0, but not at 127.0.0.1.
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_mistakes_are_named_before_a_model_is_loaded(load, capsys, tmp_path: Path) -> None:
    tool = load("serve")
    with pytest.raises(SystemExit):
        tool.main([])
    assert "name a MODEL, or your own by --config" in capsys.readouterr().err
    (tmp_path / "token").write_text("short")
    with pytest.raises(UserError, match="token must have a token of at least 8 letters"):
        tool.main(["camera_motion", "--token", str(tmp_path / "token")])
    with pytest.raises(UserError, match="no published checkpoint named 'camera'"):
        tool.main(["camera", "--port", "0"])
