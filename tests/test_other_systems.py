"""Answers on systems that have no fork, or another encoding."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mmvidformer.config.shipped import PACKAGE

VIDEO = PACKAGE / "weights" / "camera_motion.mp4"
# What Windows has not. Processes start by ``spawn``, and run this file again.
AS_WINDOWS = """
import multiprocessing, os, random, signal, subprocess, sys
for name in ("fork", "forkpty", "setpgrp", "getsid", "killpg", "geteuid"):
    delattr(os, name)
for name in ("SIGALRM", "SIGUSR1", "SIGHUP", "pthread_sigmask", "setitimer", "alarm"):
    delattr(signal, name)
for name in ("fcntl", "resource", "pwd", "grp", "pty", "termios"):
    sys.modules[name] = None
contexts = multiprocessing.context._concrete_contexts
for name in ("fork", "forkserver"):
    del contexts[name]
multiprocessing.context.DefaultContext.get_all_start_methods = lambda self: [*contexts]
multiprocessing.get_all_start_methods = lambda: [*contexts]
multiprocessing.set_start_method("spawn", force=True)
"""
COMMANDS = """
if __name__ == "__main__":
    from mmvidformer.__main__ import main

    for command in {commands!r}:
        print(command, main(command))
"""


def run(commands: list[list[str]], folder: Path, before: str = "", **variables: str) -> str:
    """Run commands one after another in a new process."""
    script = folder / "script.py"
    script.write_text(before + COMMANDS.format(commands=commands), encoding="utf-8")
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=folder,
        env={**os.environ, **path, **variables},
        capture_output=True,
    )
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 0, printed[-3000:]
    return printed


def test_where_nothing_can_be_forked(tmp_path: Path) -> None:
    """A video that is none is seen by a process of its own, too."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    (tmp_path / "videos").mkdir()
    shutil.copy(VIDEO, tmp_path / "videos" / "good.mp4")
    (tmp_path / "videos" / "bad.mp4").write_bytes(b"no video")
    commands = [
        ["demo", "camera_motion", str(VIDEO), "--csv", "segments.csv"],
        ["label", "camera_motion", "videos", "--workers", "1", "--out", "rows"],
        ["data", "check", "videos", "--workers", "1"],
    ]
    printed = run(commands, tmp_path, AS_WINDOWS)
    assert (tmp_path / "segments.csv").stat().st_size
    assert {row["video"] for row in parquet.read_table(tmp_path / "rows").to_pylist()} == {
        "good.mp4"
    }
    assert "bad.mp4" in (tmp_path / "rows" / "_failed.csv").read_text()
    assert "'--out', 'rows'] 1" in printed and "'--workers', '1'] 1" in printed


def test_an_encoding_without_most_letters(tmp_path: Path) -> None:
    """Files are UTF-8 all the same, and what the terminal cannot show ends no command."""
    (tmp_path / "names.txt").write_text(
        "\n".join(f"→ {number}" for number in range(9)), encoding="utf-8"
    )
    command = ["demo", "camera_motion", str(VIDEO), "--classes", "names.txt", "--csv", "rows.csv"]
    plain = dict(LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "'rows.csv'] 0" in run([command], tmp_path, **plain)
    rows = [*csv.DictReader((tmp_path / "rows.csv").open(encoding="utf-8"))]
    assert rows and all(row["label"].startswith("→ ") for row in rows)
