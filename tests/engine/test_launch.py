"""The process group on CPU, from what each launcher tells."""

import socket

import pytest
import torch
from mmengine.config import Config
from torch import distributed

from mmvidformer.engine import launch
from mmvidformer.engine.launch import join_cpu_group

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def bare(monkeypatch):
    """No variable of a launcher, but a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the code sets is taken back
        monkeypatch.delenv(name)
    monkeypatch.setenv("MASTER_PORT", str(port))
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
    join_cpu_group(launcher)
    assert distributed.get_backend() == "gloo"
    assert (distributed.get_rank(), distributed.get_world_size()) == (0, 1)


def test_a_missing_variable_is_told(bare):
    bare.setenv("SLURM_PROCID", "0")
    with pytest.raises(KeyError, match=r"SLURM_NTASKS.*slurm_\*\.sh"):
        join_cpu_group("slurm")


@pytest.mark.parametrize(
    ("cores", "workers", "threads"), [(2, 0, None), (2, 8, 1), (16, 4, 12), (16, 32, 8), (1, 2, 1)]
)
def test_workers_get_cores(monkeypatch, cores: int, workers: int, threads: int | None) -> None:
    asked = []
    monkeypatch.setattr(launch, "_cores", lambda: cores)
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cfg = Config(dict(launcher="none", train_dataloader=dict(num_workers=workers)))
    launch.share_cores(cfg)
    assert asked == ([] if threads is None else [threads])
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    launch.share_cores(cfg)
    assert len(asked) <= 1
