"""The group of processes that a launcher started."""

import os
import subprocess
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
                "tools/dist_*.sh (pytorch), tools/slurm_*.sh (slurm) or mpirun (mpi)"
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
