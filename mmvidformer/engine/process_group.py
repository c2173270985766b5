"""Starting several processes, and joining those that a launcher started into a group."""

import os
import subprocess
from collections.abc import Sequence
from datetime import timedelta

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import init_dist
from mmengine.utils.dl_utils import set_multi_processing
from torch import distributed

# Launcher: the variables it sets for rank, number of processes, and rank within the node.
LAUNCHERS = {
    "pytorch": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


def start_processes(script: str, arguments: Sequence[str], count: int) -> None:
    """Run a script in several processes on this node, one per GPU, or on the CPU without one.

    The environment variables ``NNODES``, ``NODE_RANK``, ``MASTER_ADDR`` and ``PORT`` describe
    several nodes, on each of which the processes are started alike.

    Args:
        script: Path of the script. It gets the arguments, and ``--launcher pytorch``.
        arguments: Its arguments.
        count: Number of processes on this node.
    """
    from torch.distributed.elastic.utils.distributed import get_free_port
    from torch.distributed.run import main as run

    env = os.environ
    # PyTorch would set one thread per process, even on CPUs. Half of the cores of a process, but at
    # most 8, are left to its dataloader workers.
    affinity = getattr(os, "sched_getaffinity", None)
    cores = max((len(affinity(0)) if affinity else os.cpu_count() or 1) // count, 1)
    threads = env.setdefault("OMP_NUM_THREADS", str(cores - 8 if cores > 16 else (cores + 1) // 2))
    env.setdefault("MKL_NUM_THREADS", threads)
    nodes, port = env.get("NNODES", "1"), env.get("PORT", "29500")
    if "PORT" not in env and nodes == "1":  # concurrent runs on a node need different ports
        port = str(get_free_port())
    place = ["--nnodes", nodes, "--node_rank", env.get("NODE_RANK", "0")]
    place += ["--master_addr", env.get("MASTER_ADDR", "127.0.0.1"), "--master_port", port]
    run([*place, "--nproc_per_node", str(count), script, *arguments, "--launcher", "pytorch"])


def join_processes(cfg: Config) -> None:
    """Join the processes that ``cfg.launcher`` started into a group, before the runner is built.

    On a machine without an accelerator the backend is gloo; MMEngine 0.10 selects a GPU whatever
    the backend. ``cfg.env_cfg.dist_cfg`` has the backend and the timeout in seconds. The launcher
    ``'none'`` needs no group.

    Raises:
        KeyError: If a variable that the launcher should have set is missing.
    """
    if cfg.launcher == "none" or distributed.is_initialized():
        return
    for name, source in zip(LAUNCHERS["pytorch"], LAUNCHERS[cfg.launcher], strict=True):
        if source not in os.environ:
            raise KeyError(
                f"launcher {cfg.launcher!r} should have set {source}; start the processes with "
                "--procs (pytorch), tools/slurm_*.sh (slurm) or mpirun (mpi)"
            )
        os.environ[name] = os.environ[source]
    os.environ.setdefault("MASTER_PORT", "29500")
    if cfg.launcher == "slurm" and "MASTER_ADDR" not in os.environ:
        nodes = ["scontrol", "show", "hostnames", os.environ["SLURM_NODELIST"]]
        os.environ["MASTER_ADDR"] = subprocess.check_output(nodes, text=True).split()[0]
    settings = cfg.get("env_cfg") or {}
    options = settings.get("dist_cfg") or {}
    # Before a group, or ``init_dist`` sets another start method.
    set_multi_processing(**(settings.get("mp_cfg") or {}), distributed=True)
    if get_device() == "cpu":
        timeout = timedelta(seconds=options.get("timeout", 600))
        distributed.init_process_group("gloo", timeout=timeout)
    else:
        init_dist("pytorch", **options)
