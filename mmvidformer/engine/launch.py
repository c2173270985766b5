"""What training and testing share: arguments, the process group on CPU, the runner."""

import os
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
from mmengine.config import Config, DictAction
from mmengine.device import get_device
from mmengine.registry import RUNNERS
from mmengine.runner import Runner
from torch import distributed

from mmvidformer.config import config_name
from mmvidformer.datasets.decoding.readers import BACKENDS
from mmvidformer.engine.decoding import set_video_backend

# Launcher: the variables it sets for rank, number of processes, and rank within the node.
_LAUNCHERS = {
    "pytorch": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


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
        "--video-backend",
        choices=BACKENDS,
        help="library that decodes videos in all pipelines; default: the config's transforms",
    )
    parser.add_argument(
        "--launcher",
        choices=["none", *_LAUNCHERS],
        default="none",
        help="what started the processes",
    )
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)


def add_model_arguments(parser: ArgumentParser, checkpoint: bool = True) -> None:
    """Add the arguments of tools that run a model: config, checkpoint, device and overrides.

    Args:
        parser: The parser.
        checkpoint: Whether the tool takes a checkpoint.
    """
    parser.add_argument("config", help="config file, or name of a shipped config")
    if checkpoint:
        parser.add_argument("checkpoint", help="checkpoint file or URL")
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        metavar="KEY=VALUE",
        help="overrides of the config, such as model.cls_head.num_classes=3",
    )


def merge_shared_arguments(cfg: Config, args: Namespace) -> None:
    """Write the shared arguments into ``cfg``."""
    os.environ.setdefault("LOCAL_RANK", str(args.local_rank))
    cfg.launcher = args.launcher
    if args.video_backend is not None:
        set_video_backend(cfg, args.video_backend)
    if args.cfg_options is not None:
        cfg.merge_from_dict(args.cfg_options)
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get("work_dir") is None:
        cfg.work_dir = str(Path("work_dirs") / config_name(args.config))


def join_cpu_group(launcher: str, timeout: float = 600) -> None:
    """Join the processes that ``launcher`` started into a gloo group.

    MMEngine 0.10 selects a GPU before it makes a group, whatever the backend, so on a machine
    without one the group is made here; the runner then finds it made.

    Args:
        launcher: ``'pytorch'``, ``'slurm'`` or ``'mpi'``.
        timeout: Seconds that a process waits for the others before it ends with an error.

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
    distributed.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def share_cores(cfg: Config) -> None:
    """Leave cores to the workers that load data, where one process computes on its own.

    PyTorch takes a thread for each core, and its threads wait for the slowest one at the end of
    every operator. With workers on the same cores one of them is always late: on few cores more
    threads then make a step slower. Up to half of the cores go to the workers of the largest
    loader. ``OMP_NUM_THREADS`` overrules this; with a launcher the scripts set it. (MMEngine
    switches OpenCV's threads off, and PyTorch gives each worker a single thread.)
    """
    if cfg.launcher != "none" or "OMP_NUM_THREADS" in os.environ:
        return
    loaders = (cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test"))
    workers = max(loader.get("num_workers", 0) for loader in loaders)
    if workers:
        torch.set_num_threads(max(1, _cores() - min(workers, _cores() // 2)))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # those that the process may use; Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def build_runner(cfg: Config) -> Runner:
    """Build the runner of ``cfg`` (its ``runner_type``, else MMEngine's ``Runner``).

    Where several processes run without an accelerator, joins them first and tells MMEngine's
    data-parallel wrapper to leave the parameters on the CPU. Where one process runs alone,
    shares the cores with its data loaders (``share_cores``). Settings of worker processes are
    taken from loaders that have none, since PyTorch refuses them there, and default hooks that
    are None are removed, since MMEngine removes only its own.
    """
    share_cores(cfg)
    for split in ("train", "val", "test"):
        loader = cfg.get(f"{split}_dataloader")
        if loader and loader.get("num_workers") == 0:
            loader.update(persistent_workers=False, timeout=0)
    for name in [name for name, hook in (cfg.get("default_hooks") or {}).items() if hook is None]:
        del cfg.default_hooks[name]
    if cfg.launcher != "none" and get_device() == "cpu":
        if not distributed.is_initialized():
            shared = cfg.get("env_cfg", {}).get("dist_cfg", {})
            join_cpu_group(cfg.launcher, shared.get("timeout", 600))
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
