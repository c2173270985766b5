"""Starting processes, joining them into a group, and cores for workers."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import distributed

from mmvidformer.engine import launch, process_group
from mmvidformer.engine.process_group import join_processes

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def bare(monkeypatch):
    """No variables of a launcher, but a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the code sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # or MMEngine sets it
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    yield monkeypatch
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.mark.parametrize(
    "launcher, names",
    [
        ("pytorch", ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
        ("slurm", ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")),
        ("mpi", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")),
    ],
)
def test_each_launcher_is_understood(bare, launcher, names, tmp_path):
    for name, value in zip(names, ("0", "1", "0"), strict=True):
        bare.setenv(name, value)
    if launcher == "slurm":
        scontrol = tmp_path / "scontrol"
        scontrol.write_text('#!/bin/sh\n[ "$3" = "n[1-2]" ] && printf "127.0.0.1\\nn2\\n"\n')
        scontrol.chmod(0o755)
        bare.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        bare.setenv("SLURM_NODELIST", "n[1-2]")
    else:
        bare.setenv("MASTER_ADDR", "127.0.0.1")
    join_processes(Config(dict(launcher=launcher)))
    assert distributed.get_backend() == "gloo"
    assert (distributed.get_rank(), distributed.get_world_size()) == (0, 1)


def test_a_missing_variable_is_named(bare):
    bare.setenv("SLURM_PROCID", "0")
    with pytest.raises(KeyError, match=r"SLURM_NTASKS.*slurm_\*\.sh"):
        join_processes(Config(dict(launcher="slurm")))


def test_gpus_get_the_backend_of_the_config(bare):
    """MMEngine makes the group of GPUs, from variables that are the same for all launchers."""
    calls = []
    bare.setattr(process_group, "get_device", lambda: "cuda")
    bare.setattr(process_group, "init_dist", lambda *args, **kwargs: calls.append((args, kwargs)))
    bare.setattr(process_group, "set_multi_processing", lambda **kwargs: calls.append(kwargs))
    for name in ("RANK", "SIZE", "LOCAL_RANK"):
        bare.setenv(f"OMPI_COMM_WORLD_{name}", "0")
    bare.setenv("MASTER_ADDR", "127.0.0.1")
    settings = dict(mp_cfg=dict(mp_start_method="fork"), dist_cfg=dict(backend="nccl", timeout=9))
    join_processes(Config(dict(launcher="mpi", env_cfg=settings)))
    # The start method first: without one MMEngine would set another.
    assert calls == [
        dict(mp_start_method="fork", distributed=True),
        (("pytorch",), dict(backend="nccl", timeout=9)),
    ]


TWO = """
import os, sys
from mmengine.config import Config
from mmvidformer.engine import errors, launch
from mmvidformer.engine.checkpointing import resume

rank = os.environ["RANK"]
resume.latest_checkpoint = lambda folder: f"{folder}/rank{rank}.pth"
cfg = Config(dict(launcher="pytorch", work_dir="here", env_cfg=dict(dist_cfg=dict(timeout=60))))
launch.build_runner = lambda cfg: print("resumes from", cfg.load_from, flush=True)

def main():
    with launch.launched(cfg, resume="auto"):
        pass

sys.exit(errors.run_tool(main))
"""


@pytest.mark.skipif(torch.__version__ < "2.7", reason="gloo of PyTorch 2.6 may hang at its end")
@pytest.mark.slow
def test_the_main_process_decides_for_all(run, bare):
    variables = dict(WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["MASTER_PORT"])
    started = [
        run(sys.executable, "-c", TWO, RANK=rank, LOCAL_RANK=rank, **variables) for rank in range(2)
    ]
    printed = [process.communicate(timeout=120)[0] for process in started]
    assert all("resumes from here/rank0.pth" in text for text in printed)
    assert [process.returncode for process in started] == [0, 0]


SCRIPTS = {
    # Each is run by two processes: code, exit status, and what the launcher says.
    "both end": ("pass", 0, ""),
    "one fails": ("sys.exit(3 * rank)", 3, ""),
    "one waits for one that failed": (
        "time.sleep(60 * rank) or sys.exit(5)",
        5,
        "killed process 1",
    ),
    "one is killed": ("rank and os.kill(os.getpid(), 9)", 137, "process 1 was ended by SIGKILL"),
    "one is stopped": ("os.kill(os.getpid(), 19) if rank else sys.exit(4)", 4, "killed process 1"),
    "their children stay": ("subprocess.Popen(['sleep', '60']), sys.exit(rank)", 1, ""),
}


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
    monkeypatch.setattr(process_group, "GRACE", 0.5)
    code, status, message = SCRIPTS[case]
    setup = "import os, subprocess, sys, time; rank = int(os.environ['RANK'])"
    pids = "os.getpid(), file=open(f'{sys.argv[1]}/{rank}', 'w')"
    script = tmp_path / "script.py"
    script.write_text(f"{setup}\nprint({pids})\n{code}\n")
    assert process_group.start_processes(str(script), [str(tmp_path)], 2) == status
    printed = capsys.readouterr().err
    assert message in printed and bool(message) == bool(printed)
    sessions = {int((tmp_path / str(rank)).read_text()) for rank in range(2)}
    # SIGKILL was sent, but takes effect a moment later.
    deadline = time.monotonic() + 30
    while left := [one for one in Path("/proc").glob("[0-9]*") if is_alive_in(sessions, one)]:
        assert time.monotonic() < deadline, left


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
    assert process_group.start_processes(str(script), [str(tmp_path)], 2) == status


@pytest.mark.parametrize(
    ("cores", "workers", "threads"), [(2, 0, 2), (2, 8, 1), (16, 4, 12), (16, 32, 8), (1, 2, 1)]
)
def test_workers_get_cores_until_the_end(monkeypatch, cores, workers, threads) -> None:
    asked = [cores]

    def build(cfg: Config) -> None:
        assert asked[-1] == threads
        raise InterruptedError

    monkeypatch.setattr(torch, "get_num_threads", lambda: asked[-1])
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(launch.RUNNERS, "build", build)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cfg = Config(dict(launcher="none", train_dataloader=dict(num_workers=workers)))
    with pytest.raises(InterruptedError), launch.launched(cfg):
        pass
    assert asked == [cores, threads, cores]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    launch.share_cores(cfg)
    assert len(asked) == 3


def test_default_hooks_that_are_none_are_left_out(monkeypatch) -> None:
    """MMEngine needs the None of its own hooks, and refuses the None of others."""
    monkeypatch.setattr(launch.RUNNERS, "build", lambda cfg: cfg)
    monkeypatch.setattr(launch, "apply_policy", lambda runner: None)
    hooks = dict(checkpoint=None, timer=dict(type="IterTimerHook"), preflight=None)
    built = launch.build_runner(Config(dict(launcher="none", default_hooks=hooks)))
    assert built.default_hooks == dict(checkpoint=None, timer=dict(type="IterTimerHook"))
