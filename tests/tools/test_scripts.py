"""What the shell scripts start."""

import subprocess
import sys
from pathlib import Path

import pytest


def answer(script: Path, *arguments: str, fake: Path, **variables: str) -> list[str]:
    """Run ``script`` with a command ``fake`` that prints its arguments and threads."""
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "threads=$OMP_NUM_THREADS"\n')
    fake.chmod(0o755)
    path = f"{fake.parent}:/usr/bin:/bin"
    done = subprocess.run(
        [script, *arguments],
        env=dict(PATH=path, **variables),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_slurm_asks_for_a_task_per_gpu(tools, tmp_path):
    said = answer(
        *(tools / "slurm_train.sh", "part", "job", "my config.py", "--amp"),
        fake=tmp_path / "srun",
        **dict(GPUS="16", CPUS_PER_TASK="3", SRUN_ARGS="--qos high"),
    )
    assert said == [
        *("-p", "part", "--job-name=job", "--gres=gpu:8", "--ntasks=16", "--ntasks-per-node=8"),
        *("--cpus-per-task=3", "--kill-on-bad-exit=1", "--qos", "high", "python", "-u"),
        *(str(tools / "train.py"), "my config.py", "--launcher", "slurm", "--amp", "threads=2"),
    ]


def test_slurm_tests_without_gpus(tools, tmp_path):
    said = answer(
        *(tools / "slurm_test.sh", "part", "job", "c.py", "w.pth", "--views", "4x3"),
        fake=tmp_path / "srun",
        **dict(GPUS="2", GPUS_PER_NODE="2", GRES="", PYTHON=sys.executable),
    )
    assert said == [
        *("-p", "part", "--job-name=job", "--ntasks=2", "--ntasks-per-node=2"),
        *("--cpus-per-task=16", "--kill-on-bad-exit=1", sys.executable, "-u"),
        *(str(tools / "test.py"), "c.py", "w.pth", "--launcher", "slurm", "--views", "4x3"),
        "threads=8",
    ]


def test_nodes_meet_at_the_given_address(tools, tmp_path):
    said = answer(
        *(tools / "dist_train.sh", "c.py", "4", "--seed", "1"),
        fake=tmp_path / "python",
        **dict(NNODES="2", NODE_RANK="1", MASTER_ADDR="first", PORT="1234", OMP_NUM_THREADS="7"),
    )
    assert said == [
        *("-m", "torch.distributed.run", "--nnodes=2", "--node_rank=1", "--nproc_per_node=4"),
        *("--master_addr=first", "--master_port=1234", str(tools / "train.py"), "c.py"),
        *("--launcher", "pytorch", "--seed", "1", "threads=7"),
    ]


@pytest.mark.parametrize("processes, threads", [(1, 32), (2, 12), (4, 5), (60, 1)])
def test_processes_and_their_workers_share_the_cores(tools, tmp_path, processes, threads):
    (tmp_path / "nproc").write_text("#!/bin/sh\necho 40\n")
    (tmp_path / "nproc").chmod(0o755)
    said = answer(
        *(tools / "dist_test.sh", "c.py", "w.pth", str(processes)),
        fake=tmp_path / "python",
        PORT="1234",
    )
    assert said[-1] == f"threads={threads}"
    assert f"--nproc_per_node={processes}" in said


@pytest.mark.parametrize("script", ["dist_train", "dist_test", "slurm_train", "slurm_test"])
def test_a_missing_argument_is_named(tools, script):
    done = subprocess.run([tools / f"{script}.sh", "one"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
