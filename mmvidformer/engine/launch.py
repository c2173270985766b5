"""Runners from start to end."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, set_forkserver_preload
from os import environ
from typing import TYPE_CHECKING

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import broadcast_object_list, is_main_process
from mmengine.registry import RUNNERS
from torch import distributed

from mmvidformer.config import leaf_datasets
from mmvidformer.engine.bad_videos import apply_policy
from mmvidformer.engine.process_group import join_processes

if TYPE_CHECKING:  # takes seconds to import, and few tools need it
    from mmengine.runner import Runner

# Default hooks that MMEngine adds itself, unless they are None.
MMENGINE_HOOKS = "runtime_info timer sampler_seed logger param_scheduler checkpoint".split()
# What dataloader workers import, and the tools, since each worker imports the main script.
PRELOADED = [
    *("mmengine.runner", "mmvidformer.engine.arguments", "mmvidformer.engine.launch"),
    *("mmvidformer.datasets.bad_videos", "mmvidformer.datasets.transforms.augment"),
    *("mmvidformer.datasets.transforms.auto_augment", "mmvidformer.datasets.transforms.sampling"),
]


def share_cores(cfg: Config) -> None:
    """Leave cores to the dataloader workers if a single process trains or tests.

    PyTorch starts a thread per core, and at the end of every operator all threads wait for the
    slowest one, which is always late if workers use the same cores. Up to half of the cores are
    left to the workers of the largest dataloader. ``OMP_NUM_THREADS`` takes precedence; with a
    launcher the scripts set it.
    """
    if cfg.launcher != "none" or "OMP_NUM_THREADS" in environ:
        return
    cores = torch.get_num_threads()
    torch.set_num_threads(max(1, cores - min(most_workers(cfg), cores // 2)))


def most_workers(cfg: Config) -> int:
    """Largest number of workers of a dataloader of a config."""
    loaders = (cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test"))
    return max(loader.get("num_workers", 0) for loader in loaders)


def start_worker_server(cfg: Config) -> None:
    """Start the server that forks dataloader workers, if the config has such workers.

    It imports what they need once, while the runner is built.
    """
    mp_cfg = (cfg.get("env_cfg") or {}).get("mp_cfg") or {}
    if mp_cfg.get("mp_start_method") == "forkserver" and most_workers(cfg):
        set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()


def build_runner(cfg: Config) -> "Runner":
    """Build the runner of ``cfg`` (its ``runner_type``, or MMEngine's ``Runner``).

    Datasets get the config's ``class_names``, for checkpoints, and its policy ``bad_videos``.
    Dataloaders without workers lose the settings of workers, which PyTorch refuses there. Default
    hooks that are None are removed, since MMEngine removes only its own. Several processes without
    an accelerator keep to the CPU.
    """
    import mmengine.runner  # noqa: F401  (registers the runner; takes a second)

    share_cores(cfg)
    start_worker_server(cfg)
    for split in ("train", "val", "test"):
        loader = cfg.get(f"{split}_dataloader")
        if loader and loader.get("num_workers") == 0:
            loader.update(persistent_workers=False, timeout=0)
        if loader and cfg.get("class_names"):
            for leaf in leaf_datasets(loader.get("dataset") or {}):
                leaf.metainfo = {**leaf.get("metainfo", {}), "classes": cfg.class_names}
    for name, hook in [*(cfg.get("default_hooks") or {}).items()]:
        if hook is None and name not in MMENGINE_HOOKS:
            del cfg.default_hooks[name]
    if cfg.launcher != "none" and get_device() == "cpu":
        wrapper = cfg.get("model_wrapper_cfg") or dict(
            type="MMDistributedDataParallel",
            broadcast_buffers=False,
            find_unused_parameters=cfg.get("find_unused_parameters", False),
        )
        # Without the key MMEngine fills in the GPU of the process.
        cfg.model_wrapper_cfg = dict(wrapper, device_ids=None)
    runner = RUNNERS.build(cfg)
    apply_policy(runner)
    return runner


@contextmanager
def launched(cfg: Config, resume: str | None = None) -> Iterator["Runner"]:
    """Join the processes, build the runner, and leave the group at the end.

    Args:
        cfg: Complete config.
        resume: Checkpoint to resume from, or ``'auto'`` for the newest complete one in the work
            dir if there is one.

    Raises:
        ValueError: If a list of videos is malformed.
    """
    from mmvidformer.engine.checkpointing.resume import latest_checkpoint

    threads = torch.get_num_threads()
    join_processes(cfg)
    try:
        if resume == "auto":
            found = [latest_checkpoint(cfg.work_dir) if is_main_process() else None]
            broadcast_object_list(found)
            resume = found[0]
        if resume is not None:
            cfg.resume, cfg.load_from = True, resume
        try:
            yield build_runner(cfg)
        except Exception as error:
            from mmvidformer.engine.preflight.lists import explain_list  # imports datasets

            if problem := explain_list(error):
                raise ValueError(problem) from error
            raise
        if distributed.is_initialized():
            distributed.destroy_process_group()
    finally:
        torch.set_num_threads(threads)
