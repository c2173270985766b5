"""Two processes, one of which gets a signal, dies, hangs, or has a loss that is not finite."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import mmvidformer  # noqa: F401  (lets PyTorch load what checkpoints hold)

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


def run(case: str, folder: Path) -> tuple[int, str, float]:
    """Exit status of the launcher, its output, and the seconds that it took."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node=2"]
    command += [f"--master_port={port}", HERE / "processes.py", case, folder]
    start = time.monotonic()
    done = subprocess.run(
        list(map(str, command)),
        env=dict(os.environ, PYTHONPATH=path, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - start


def test_a_step_is_skipped_by_all(tmp_path: Path) -> None:
    status, log, _ = run("skip", tmp_path)
    assert status == 0, log
    ends = re.findall(r"factor (\S+) iter (\d+)", log)
    assert len(ends) == 2 and ends[0] == ends[1] and ends[0][1] == "9"
    assert "rank 1: loss nan" in log and "rank 0: loss" not in log


def test_all_stop_at_a_bad_loss_of_one(tmp_path: Path) -> None:
    status, log, _ = run("stop", tmp_path)
    assert status != 0
    assert "FloatingPointError: step 4" in log and "rank 1: loss nan" in log


def test_a_signal_to_one_stops_all(tmp_path: Path) -> None:
    status, log, _ = run("sigterm", tmp_path)
    assert status != 0
    # The launcher ends the others as soon as one has ended, by that signal or their own status.
    assert re.findall(r"exitcode +: (\S+)", log)[-1] == "143", log
    saved = torch.load(tmp_path / "interrupted.pth", weights_only=True)["meta"]
    assert saved["iter"] == 5
    assert saved["sampling"]["epoch_length"] == 3


@pytest.mark.parametrize("case", ["dies", "hangs"])
def test_a_lost_process_ends_the_run(case: str, tmp_path: Path) -> None:
    """The launcher sees a death at once; the others wait 10 s for a process that hangs."""
    status, log, seconds = run(case, tmp_path)
    assert status != 0
    assert seconds < 240
    assert ("Signal 9" if case == "dies" else "imed out") in log, log
    torch.load(tmp_path / "epoch_1.pth", weights_only=True)
