"""Two processes, one of which gets a signal, dies, hangs, or has a loss that is not finite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mmvidformer.registry  # noqa: F401  (lets PyTorch load what checkpoints hold)

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


START = """
import sys
from mmvidformer.engine.process_group import start_processes
sys.exit(start_processes(sys.argv[1:], 2))
"""


def run(case: str, folder: Path) -> tuple[int, str]:
    """Exit status of the launcher, and its output."""
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            START,
            str(HERE / "processes.py"),
            case,
            str(folder),
        ],
        env=dict(os.environ, PYTHONPATH=path, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


def test_all_stop_at_a_bad_loss_of_one(tmp_path: Path) -> None:
    status, log = run("stop", tmp_path)
    assert status == 2, log
    assert "error: step 4: the loss is not finite (rank 1: loss nan" in log
    assert "Traceback" not in log


def test_a_signal_to_one_stops_all(tmp_path: Path) -> None:
    status, log = run("sigterm", tmp_path)
    assert status == 143, log
    saved = torch.load(tmp_path / "interrupted.pth", weights_only=True)["meta"]
    assert saved["iter"] == 4
    assert saved["sampling"]["epoch_length"] == 3


@pytest.mark.parametrize(
    ("case", "ends", "message"),
    [
        ("dies", 137, "error: process 1 was ended by SIGKILL"),
        ("hangs", 1, "error: another process is gone, or did not answer in time"),
    ],
)
def test_a_lost_process_ends_the_run(case: str, ends: int, message: str, tmp_path: Path) -> None:
    """The launcher sees a death at once; the others wait 10 s for a process that hangs."""
    status, log = run(case, tmp_path)
    assert status == ends
    assert message in log and log.count("error:") == 1 and "Traceback" not in log, log
    torch.load(tmp_path / "epoch_1.pth", weights_only=True)
