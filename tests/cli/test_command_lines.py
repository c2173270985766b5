"""Random wrong command lines end in a short message."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mmvidformer import __main__
from mmvidformer.__main__ import main

GROUPS = {name: rows for name, rows in __main__.COMMANDS.items() if isinstance(rows, dict)}
COMMANDS = {
    **{name: [name] for name in __main__.COMMANDS if name not in GROUPS},
    **{f"{group} {name}": [group, name] for group, rows in GROUPS.items() for name in rows},
}
FILES = {
    "empty": b"",
    "text.txt": b"a b c\nmissing.mp4 x\n",
    "latin.txt": "f\u00fcr.mp4 0\n".encode("latin-1"),
    "bytes.pth": bytes(range(256)),
    "broken.py": b"model = dict(",
    "raises.py": b"1 / 0\n",
    "empty.py": b"",
    "bad.npz": b"PK\x03\x04a",
    "bad.mp4": b"no video",
    "open.json": b"{",
    "list.json": b"[1]",
}
WRONG = [
    *("", " ", "missing", "missing/deep.pth", "\u00fcn\u00efc\u00f6d\u00e9 \U0001f600", "-1", "0"),
    *("nan", "1e999", "9" * 30, "a" * 300, "vivit_fe", "*", "[", "~", "a=b", "..", "1x", "0x0"),
    *("published://x", "labels://none", "--", "--nope", "--cfg-options", "/proc/nope", "folder"),
    *FILES,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (root / name).write_bytes(content)
    np.savez(root / "odd.npz", a=np.zeros(3))
    (root / "folder").mkdir()
    return root


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["mmvidformer"])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("MMVIDFORMER_DEBUG", raising=False)


def run(capsys: pytest.CaptureFixture, *arguments: str) -> tuple[int, str]:
    """Exit status, and the message without the usage that argparse prints first."""
    try:
        status = main(arguments)
    except SystemExit as error:
        status = error.code
    err = capsys.readouterr().err
    at = max(err.rfind("\nmmvidformer "), err.rfind("\nerror: "))
    return status, err[at + 1 :].strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_arguments(command: str, capsys) -> None:
    """Two to four wrong words, of which none writes anything but a message."""
    if command in ("count", "models"):  # accept few words or make much of them
        pytest.skip("has tests of its own")

    @settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(st.sampled_from(WRONG), min_size=2, max_size=4))
    def wrong(words: list[str]) -> None:
        status, message = run(capsys, *COMMANDS[command], *words)
        assert status in (1, 2)
        assert message and len(message.splitlines()) <= 2, message

    wrong()


@pytest.mark.parametrize(
    "override",
    [
        "model.backbone.clip_len=x",
        "model.backbone.clip_len=0",
        "model.backbone.stem.tubelet=2",
        "model.backbone.stem.tubelet=[0,16,16]",
        "model.backbone.nope=1",
        "model.backbone.arch.depth=2",
        "model.backbone=1",
        "model.backbone.type=Nope",
        "nope",
        "a=[",
    ],
)
def test_wrong_overrides(override: str, capsys) -> None:
    status, message = run(
        *(capsys, "plot", "field", "vivit_fe_k400", "--out", "a.png", "--cfg-options", override)
    )
    assert status == 2 and "error: " in message and len(message.splitlines()) <= 2, message
