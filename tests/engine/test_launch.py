"""Starting processes, and joining them into a group."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import distributed

from mmvidformer.engine import launch, process_group
from mmvidformer.engine.process_group import join_processes
from mmvidformer.engine.quiet import QuietRunner

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def bare(monkeypatch):
    """No variables of a launcher, but a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the code sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # or MMEngine sets it
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    yield monkeypatch
    if distributed.is_initialized():
        distributed.destroy_process_group()


def test_processes_without_gpu_join_through_gloo(bare):
    for name in ("RANK", "LOCAL_RANK"):
        bare.setenv(name, "0")
    bare.setenv("WORLD_SIZE", "1")
    cfg = Config(dict(launcher="pytorch"))
    with pytest.raises(ValueError, match="MASTER_ADDR expected, but not set"):
        join_processes(cfg)
    bare.setenv("MASTER_ADDR", "127.0.0.1")
    with bare.context() as gpu:
        gpu.setattr(process_group, "get_device", lambda: "cuda")
        join_processes(cfg)
    assert not distributed.is_initialized()  # MMEngine does it
    join_processes(cfg)
    assert distributed.get_backend() == "gloo"


TWO = """
import os, sys
from types import SimpleNamespace
from mmengine.config import Config
from mmvidformer.engine import errors, launch, quiet
from mmvidformer.engine.checkpointing import resume

rank = os.environ["RANK"]
resume.latest_checkpoint = lambda folder: f"{folder}/rank{rank}.pth"
cfg = Config(dict(launcher="pytorch", work_dir="here", env_cfg=dict(dist_cfg=dict(timeout=600))))
quiet.QuietRunner.from_cfg = lambda cfg: SimpleNamespace(
    work_dir=cfg.work_dir, optim_wrapper=None, model=None, hooks=[]
)
launch.apply_policy = lambda runner: None
launch.use_fused = lambda optim_wrapper, model: None

def main():
    print("resumes from", launch.build_runner(cfg, resume="auto")._load_from, flush=True)

sys.exit(errors.run_tool(main))
"""


@pytest.mark.skipif(torch.__version__ < "2.7", reason="gloo of PyTorch 2.6 may hang at its end")
@pytest.mark.slow
def test_the_main_process_decides_for_all(run, bare):
    variables = dict(WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["MASTER_PORT"])
    started = [
        run(sys.executable, "-c", TWO, RANK=rank, LOCAL_RANK=rank, **variables) for rank in range(2)
    ]
    printed = [process.communicate(timeout=600)[0] for process in started]
    for text in printed:
        assert "resumes from here/rank0.pth" in text
    assert [process.returncode for process in started] == [0, 0]


SCRIPTS = {
    # Each is run by two processes that have both started: code, exit status, and what the launcher
    # says.
    "both end": ("pass", 0, ""),
    "one fails": ("sys.exit(3 * rank)", 3, ""),
    "one waits for one that failed": (
        "time.sleep(3600 * rank) or sys.exit(5)",
        5,
        "killed process 1",
    ),
    "one is killed": ("rank and os.kill(os.getpid(), 9)", 137, "process 1 was ended by SIGKILL"),
    "one is stopped": ("os.kill(os.getpid(), 19) if rank else sys.exit(4)", 4, "killed process 1"),
    "one hangs, others lost it": (
        "time.sleep(3600) if rank else sys.exit(255)",
        1,
        "killed process 1, which did not end by itself\nerror: another",
    ),
    "one lost the other first": ("time.sleep(0.3 * rank), sys.exit(255 - 252 * rank)", 3, ""),
    "their children stay": ("subprocess.Popen(['sleep', '3600']), sys.exit(rank)", 1, ""),
}


BOTH_START = """
import os, pathlib, subprocess, sys, time
rank, folder = int(os.environ['RANK']), pathlib.Path(sys.argv[1])
(folder / f"{rank}.part").write_text(str(os.getpid()))
(folder / f"{rank}.part").rename(folder / f"{rank}")
while not (folder / f"{1 - rank}").exists():
    time.sleep(0.01)
"""


def is_alive_in(sessions: set[int], process: Path) -> bool:
    try:
        return os.getsid(int(process.name)) in sessions and bool(
            (process / "cmdline").read_bytes()  # empty after its end
        )
    except OSError:
        return False


@pytest.mark.parametrize("case", SCRIPTS)
def test_processes_end_together(case, tmp_path, monkeypatch, capsys):
    """And none of theirs is left."""
    code, status, message = SCRIPTS[case]
    # Where none is to be killed, all have the time that a busy machine needs.
    monkeypatch.setattr(process_group, "GRACE", 0.5 if message.startswith("killed") else 600)
    script = tmp_path / "script.py"
    script.write_text(f"{BOTH_START}{code}\n")
    assert process_group.start_processes([str(script), str(tmp_path)], 2) == status
    printed = capsys.readouterr().err
    assert message in printed and bool(message) == bool(printed)
    sessions = {int((tmp_path / str(rank)).read_text()) for rank in range(2)}
    # SIGKILL was sent, but takes effect a moment later.
    wait_for(lambda: not any(is_alive_in(sessions, path) for path in Path("/proc").glob("[0-9]*")))


@pytest.mark.parametrize(("numbers", "status"), [([15], 143), ([2], 130), ([10, 10], 138)])
def test_signals_are_passed_on_and_a_second_one_kills(numbers, status, tmp_path, monkeypatch):
    """Two processes that end on SIGTERM and SIGINT, but not on SIGUSR1."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(10, lambda *_: None)\n"
        "signal.signal(15, lambda *_: sys.exit(143))\n"
        "signal.signal(2, lambda *_: sys.exit(130))\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).touch()\n"
        "while True: time.sleep(0.05)\n"
    )
    sleep = time.sleep

    def act(seconds):
        sleep(0.02)
        if all((tmp_path / rank).exists() for rank in "01") and numbers:
            os.kill(os.getpid(), numbers.pop(0))

    monkeypatch.setattr(process_group.time, "sleep", act)
    assert process_group.start_processes([str(script), str(tmp_path)], 2) == status


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells processes that it died")
def test_processes_end_when_the_launcher_is_killed(tmp_path):
    """They get SIGTERM, so that a run saves a checkpoint."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, pathlib, signal, sys, time\n"
        "from mmvidformer.engine.errors import end_with_launcher\n"
        "file = pathlib.Path(sys.argv[1], os.environ['RANK'])\n"
        "signal.signal(15, lambda *_: sys.exit(file.write_text('ended')))\n"
        "end_with_launcher()\n"
        "file.touch()\n"
        "while True: time.sleep(0.05)\n"
    )
    start = "import sys; from mmvidformer.engine.process_group import start_processes as start\n"
    command = [sys.executable, "-c", f"{start}start(sys.argv[1:], 2)", script, tmp_path]
    launcher = subprocess.Popen(command)
    files = [tmp_path / rank for rank in "01"]
    wait_for(lambda: all(file.exists() for file in files))
    launcher.kill()
    launcher.wait()
    wait_for(lambda: [file.read_text() for file in files] == ["ended", "ended"])


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600  # against a hang, not a busy machine
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_default_hooks_that_are_none_are_left_out(monkeypatch) -> None:
    """MMEngine needs the None of its own hooks, and refuses the None of others."""
    monkeypatch.setattr(QuietRunner, "from_cfg", lambda cfg: cfg)
    monkeypatch.setattr(launch, "apply_policy", lambda runner: None)
    monkeypatch.setattr(launch, "use_fused", lambda optim_wrapper, model: None)
    hooks = dict(checkpoint=None, timer=dict(type="IterTimerHook"), preflight=None)
    cfg = dict(launcher="none", default_hooks=hooks, optim_wrapper=None, model=None)
    built = launch.build_runner(Config(cfg))
    assert built.default_hooks == dict(checkpoint=None, timer=dict(type="IterTimerHook"))
