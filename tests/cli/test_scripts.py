"""What the shell scripts start."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmvidformer.engine import process_group
from mmvidformer.engine.offer_options import OfferOptions
from mmvidformer.engine.options import add_options
from mmvidformer.engine.process_group import start_processes
from mmvidformer.engine.run_options import RunnerOptions


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


@pytest.mark.parametrize("name", ["set_address"])
def test_a_script_finds_its_modules_from_any_folder(tools, tmp_path, name: str) -> None:
    """As a user runs it, without PYTHONPATH."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, tools / f"{name}.py", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and f"usage: {name}.py" in done.stdout, done.stderr


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


def test_slurm_tests_with_other_resources(tools, tmp_path):
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


@pytest.mark.parametrize(
    "script, arguments, expected",
    [
        ("dist_train", ["c.py", "4", "--seed", "1"], ["c.py", "--procs", "4", "--seed", "1"]),
        ("dist_test", ["c.py", "w.pth", "2"], ["c.py", "w.pth", "--procs", "2"]),
    ],
)
def test_dist_scripts_pass_on_their_arguments(tools, tmp_path, script, arguments, expected):
    said = answer(tools / f"{script}.sh", *arguments, fake=tmp_path / "python", OMP_NUM_THREADS="7")
    assert said == [str(tools / f"{script.removeprefix('dist_')}.py"), *expected, "threads=7"]


@pytest.fixture
def launched(monkeypatch) -> list[tuple]:
    """Commands and environments of the processes that are started, on 40 cores."""
    calls: list[tuple] = []

    def start(command: list[str], env: dict, start_new_session: bool) -> SimpleNamespace:
        calls.append((command, env))
        ended = dict(pid=-1, returncode=0, poll=lambda: 0, kill=lambda: None, wait=lambda: 0)
        return SimpleNamespace(**ended)

    monkeypatch.setattr(process_group.subprocess, "Popen", start)
    monkeypatch.setattr(process_group.torch, "get_num_threads", lambda: 40)
    monkeypatch.setattr(os, "environ", {})
    return calls


def test_nodes_meet_at_the_given_address(launched):
    os.environ.update(NNODES="2", NODE_RANK="1", MASTER_ADDR="first", PORT="1234")
    assert start_processes(["train.py", "c.py", "--procs", "4"], 4) == 0
    command = [sys.executable, "train.py", "c.py", "--procs", "4", "--launcher", "pytorch"]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert launched[0][0] == command
    assert [[env[name] for name in names] for _, env in launched] == [
        [str(4 + local), str(local), "8", "first", "1234"] for local in range(4)
    ]


@pytest.mark.parametrize("processes, threads", [(1, 32), (2, 12), (4, 5), (60, 1)])
def test_processes_and_their_workers_share_the_cores(launched, processes, threads):
    start_processes(["train.py"], processes)
    env = launched[0][1]
    assert env["OMP_NUM_THREADS"] == env["MKL_NUM_THREADS"] == str(threads)
    start_processes(["train.py"], processes)
    assert launched[-1][1]["MASTER_PORT"] != env["MASTER_PORT"]


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_number_of_processes_is_positive(capsys, number):
    parser = ArgumentParser()
    add_options(parser, RunnerOptions)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--procs", number])
    assert f"at least 1, got '{number}'" in capsys.readouterr().err


def test_help_tells_defaults_that_are_something():
    parser = ArgumentParser()
    add_options(parser, OfferOptions)
    text = " ".join(parser.format_help().split())
    assert "(default: 2000.0)" in text and "(default: )" not in text


@pytest.mark.parametrize("script", ["dist_train", "dist_test", "slurm_train", "slurm_test"])
def test_a_missing_argument_is_named(tools, script):
    done = subprocess.run([tools / f"{script}.sh", "one"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
