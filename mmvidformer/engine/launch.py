"""What training and testing share: arguments, the process group on CPU, the runner."""

import os
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmengine.config import Config, DictAction
from mmengine.device import get_device
from mmengine.registry import RUNNERS
from mmengine.runner import Runner
from torch import distributed

import mmvidformer
from mmvidformer.engine.bad_videos import use_bad_video_policy

# Launcher: the variables it sets for rank, number of processes, and rank within the node.
_LAUNCHERS = {
    "pytorch": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


def load_config(name: str) -> Config:
    """Read a config file, or a shipped config by its name, as ``vivit_fe_k400``."""
    if Path(name).is_file():
        return Config.fromfile(name)
    return mmvidformer.get_config(_bare(name))


def _bare(name: str) -> str:
    return name.removeprefix("mmvidformer::")


def add_shared_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that training and testing have in common, named as MMAction2's."""
    parser.add_argument(
        "--work-dir",
        help="where logs and results go; default: the config's work_dir, "
        "or work_dirs/<name of the config>",
    )
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        help="settings to change, as key=value; lists as key=[a,b] without blanks, "
        "nested keys with dots, list items by number: a.b.0.c=1",
    )
    parser.add_argument(
        "--launcher",
        choices=["none", *_LAUNCHERS],
        default="none",
        help="what started the processes",
    )
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)


def merge_shared_arguments(cfg: Config, args: Namespace) -> None:
    """Write the shared arguments into ``cfg``."""
    os.environ.setdefault("LOCAL_RANK", str(args.local_rank))
    cfg.launcher = args.launcher
    if args.cfg_options is not None:
        cfg.merge_from_dict(args.cfg_options)
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get("work_dir") is None:
        cfg.work_dir = str(Path("work_dirs") / Path(_bare(args.config)).stem)


def join_cpu_group(launcher: str) -> None:
    """Join the processes that ``launcher`` started into a gloo group.

    MMEngine 0.10 selects a GPU before it makes a group, whatever the backend, so on a machine
    without one the group is made here; the runner then finds it made.

    Raises:
        KeyError: If a variable that the launcher should have set is missing.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    for name, source in zip(names, _LAUNCHERS[launcher], strict=True):
        if source not in os.environ:
            raise KeyError(
                f"launcher {launcher!r} should have set {source}; start the processes with "
                "tools/dist_*.sh (pytorch), tools/slurm_*.sh (slurm) or mpirun (mpi)"
            )
        os.environ[name] = os.environ[source]
    os.environ.setdefault("MASTER_PORT", "29500")
    if "MASTER_ADDR" not in os.environ:
        if launcher != "slurm":
            raise KeyError("MASTER_ADDR is not set; it is the address of the first node")
        nodes = ["scontrol", "show", "hostnames", os.environ["SLURM_NODELIST"]]
        listed = subprocess.run(nodes, check=True, capture_output=True, text=True).stdout
        os.environ["MASTER_ADDR"] = listed.splitlines()[0]
    distributed.init_process_group("gloo")


def build_runner(cfg: Config) -> Runner:
    """Build the runner of ``cfg`` (its ``runner_type``, else MMEngine's ``Runner``).

    Where several processes run without an accelerator, joins them first and tells MMEngine's
    data-parallel wrapper to leave the parameters on the CPU. The policy ``cfg.bad_videos`` is laid
    on all data sets.
    """
    use_bad_video_policy(cfg)
    if cfg.launcher != "none" and get_device() == "cpu":
        if not distributed.is_initialized():
            join_cpu_group(cfg.launcher)
        wrapper = cfg.get("model_wrapper_cfg") or dict(
            type="MMDistributedDataParallel",
            broadcast_buffers=False,
            find_unused_parameters=cfg.get("find_unused_parameters", False),
        )
        # Without the key MMEngine fills in the process's GPU.
        cfg.model_wrapper_cfg = dict(wrapper, device_ids=None)
    return RUNNERS.build(cfg)


@contextmanager
def launched(cfg: Config) -> Iterator[Runner]:
    """Build the runner of ``cfg`` and leave the process group at the end."""
    try:
        yield build_runner(cfg)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
