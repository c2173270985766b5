"""What the quick start shows, with commands that only print; not what it trains or opens."""

import os
import pty
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

LOG = Path("work_dirs/quickstart/quickstart.log")
COMMAND = r"""#!/bin/sh
i=0
while [ $i -lt 100 ]; do echo "warning: $1 is deprecated"; i=$((i + 1)); done
case $1 in
    demo)
        [ $2 = camera_motion ] || exit 0
        printf 'video,start,end,shot,label\na,0,1,0,static\na,1,2,0,pan left\n' \
            >work_dirs/quickstart/segments.csv ;;
    finetune)
        mkdir work_dirs/quickstart/moves
        touch work_dirs/quickstart/moves/best_acc_top1_epoch_3.pth
        echo "top-1: 90.00%"
        echo "validation: 90.0% (n = 40); without looking at the videos: 25.0%"
        sleep 1 ;;
    test) echo "top-1: 82.50%" ;;
esac
[ "$1" != "$SLEEPS" ] || sleep 600
[ "$1" != "$FAILS" ] || { echo "the disk is full"; exit 3; }
"""
# Runs a command of lab.
PYTHON = COMMAND.replace("\ni=0", "\nshift 2\ni=0")
# Bash reads it first: the script interrupts itself before it notes the process group of a step.
EARLY = r"""
set -T
trap '
    if [ "$BASH_COMMAND" = "group=\$!" ]; then
        until grep -q "warning: lite,web" "$log"; do sleep 0.1; done
        kill -INT $$
    fi' DEBUG
"""


@pytest.fixture
def start(tools: Path, tmp_path: Path) -> Callable:
    """Start the script in a tree of its own, whose commands print and sleep or fail if told to."""
    scripts, venv = tmp_path / "tools", tmp_path / ".venv" / "bin"
    for folder in (scripts, venv):
        folder.mkdir(parents=True)
    shutil.copy(tools / "quickstart.sh", scripts)
    fakes = [scripts / "setup_env.sh", venv / "mmvidformer", venv / "python"]
    for path, text in zip(fakes, (COMMAND, COMMAND, PYTHON), strict=True):
        path.write_text(text)
        path.chmod(0o755)

    def run(stdout: int = subprocess.PIPE, **variables: str) -> subprocess.Popen:
        env = {"PATH": os.environ["PATH"], **variables}
        script = ["bash", str(scripts / "quickstart.sh")]
        options = dict(env=env, cwd=tmp_path, text=True, stdin=subprocess.DEVNULL)
        options |= dict(stderr=subprocess.STDOUT, preexec_fn=_listen_to_interrupts)
        return subprocess.Popen(script, stdout=stdout, **options)

    return run


def _listen_to_interrupts() -> None:
    """Undo what shells do to commands in the background: bash cannot trap what was ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_dozen_lines_tell_what_was_measured(start: Callable, tmp_path: Path) -> None:
    process = start()
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0, printed
    assert len(printed.splitlines()) <= 14 and "warning" not in printed
    assert "7 GB" in printed and "2 minutes" in printed
    assert "bundled clip: static,pan left." in printed
    assert "82.50% of 40 test clips" in printed
    assert "  validation: 90.0% (n = 40); without looking at the videos: 25.0%." in printed
    assert printed.rstrip().endswith(
        ".venv/bin/mmvidformer web --config work_dirs/quickstart/moves/finetune/config.py "
        "--checkpoint work_dirs/quickstart/moves/best_acc_top1_epoch_3.pth"
    )
    for name in ("camera.mp4", "square.mp4", "curves.png", str(LOG)):
        assert name in printed
    assert (tmp_path / LOG).read_text().count("warning: ") == 900


def test_seconds_run_in_a_terminal(start: Callable) -> None:
    ours, theirs = pty.openpty()
    process = start(stdout=theirs)
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # how Linux ends a terminal
        while True:
            printed += os.read(ours, 4096)
    assert process.wait(timeout=600) == 0
    assert re.search(rb"\rfine-tune on 20 of them +\d+ s\rfine", printed)  # its seconds run
    assert printed.count(b"\n") <= 14


@pytest.mark.parametrize("name", ["lite,web", "demo", "generate", "finetune", "test", "plot"])
def test_a_step_that_fails_shows_its_end(start: Callable, name: str) -> None:
    process = start(FAILS=name)
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 3
    assert "the disk is full" in printed and str(LOG) in printed
    assert len(printed.splitlines()) < 30 and "82.50" not in printed.splitlines()[-1]


@pytest.mark.parametrize("name", ["finetune", "demo"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all(start: Callable, tmp_path: Path, name: str, number: int) -> None:
    process = start(SLEEPS=name)
    while b"sleep\x00600\x00" not in _running(tmp_path):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    _check_end(process, tmp_path)


def test_an_interrupt_ends_a_step_that_has_just_started(start: Callable, tmp_path: Path) -> None:
    hook = tmp_path / "hook.sh"
    hook.write_text(EARLY)
    _check_end(start(SLEEPS="lite,web", BASH_ENV=str(hook)), tmp_path)


def _check_end(process: subprocess.Popen, folder: Path) -> None:
    printed, _ = process.communicate(timeout=600)  # returns when no child holds the pipe
    assert process.returncode == 130 and "stopped after" in printed
    assert not _running(folder)


def _running(folder: Path) -> list[bytes]:
    """Return commands whose working folder is the tree of the test, but its script."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            inside = Path(os.readlink(entry / "cwd")) == folder
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if inside and b"quickstart" not in command:
            found.append(command)
    return found
