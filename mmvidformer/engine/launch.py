from difflib import get_close_matches
from multiprocessing import forkserver, get_all_start_methods, set_forkserver_preload
from typing import TYPE_CHECKING

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import broadcast_object_list, is_main_process
from mmengine.registry import OPTIMIZERS, RUNNERS

from mmvidformer.config import leaf_datasets
from mmvidformer.config.building import building
from mmvidformer.data.workers import PRELOADED
from mmvidformer.engine.bad_videos import apply_policy
from mmvidformer.engine.device_decoding import decode_on_device
from mmvidformer.engine.optim.fused import use_fused
from mmvidformer.engine.process_group import join_processes
from mmvidformer.errors import UnknownName
from mmvidformer.storage.files import is_remote

if TYPE_CHECKING:  # takes seconds to import, and few tools need it
    from mmengine.runner import Runner

# Default hooks that MMEngine adds itself, unless they are None.
MMENGINE_HOOKS = "runtime_info timer sampler_seed logger param_scheduler checkpoint".split()


def build_runner(cfg: Config, resume: str | None = None) -> "Runner":
    """Join the processes and build the runner of ``cfg`` (its ``runner_type``, or ``QuietRunner``).

    Datasets get the config's ``class_names``, for checkpoints, and its policy ``bad_videos``.
    MMEngine's ``CheckpointHook`` becomes ``AtomicCheckpointHook``, which takes its arguments. Hooks
    that are None are removed, and so are the settings of workers where there are none. Hooks may
    write to addresses (``out_dir``). On a GPU, optimizers are fused if they can be (``use_fused``),
    and the config that the run saves says so. With ``decode_on_device`` in the config, the model's
    device decodes videos.

    Args:
        cfg: Complete config.
        resume: Checkpoint to resume from; ``'auto'`` for the newest intact one of the run, if any.
    """
    # Imported here, since they take a second.
    from mmvidformer.checkpoints.addresses import read_all_kinds
    from mmvidformer.engine.checkpointing.remote import CLIENT, find_last
    from mmvidformer.engine.checkpointing.resume import latest_checkpoint
    from mmvidformer.engine.quiet import QuietRunner

    read_all_kinds()
    loaders = [cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test")]
    hooks = cfg.get("default_hooks") or {}
    mp_cfg = (cfg.get("env_cfg") or {}).get("mp_cfg") or {}
    has_workers = any(loader.get("num_workers") for loader in loaders)
    # MMEngine leaves the method of Windows, which has no such server, as it is.
    has_server = "forkserver" in get_all_start_methods()
    if has_server and has_workers and mp_cfg.get("mp_start_method") == "forkserver":
        set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
    for loader in loaders:
        if loader.get("num_workers") == 0:
            loader.update(persistent_workers=False, timeout=0)
        if loader and cfg.get("class_names"):
            for leaf in leaf_datasets(loader.get("dataset") or {}):
                leaf.metainfo = {**leaf.get("metainfo", {}), "classes": cfg.class_names}
    cfg.default_hooks = {"checkpoint": dict(type="CheckpointHook", interval=1), **hooks}
    for name, hook in [*cfg.default_hooks.items()]:
        if hook and hook.get("type") == "CheckpointHook":
            hook.type = "mmvidformer.AtomicCheckpointHook"
        if hook is None and name not in MMENGINE_HOOKS:
            del cfg.default_hooks[name]
        elif hook and is_remote(hook.get("out_dir") or ""):
            hook.setdefault("file_client_args", dict(CLIENT))
    if cfg.launcher != "none" and get_device() == "cpu":
        wrapper = cfg.get("model_wrapper_cfg") or dict(
            type="MMDistributedDataParallel",
            broadcast_buffers=False,
            find_unused_parameters=cfg.get("find_unused_parameters", False),
        )
        # Without the key MMEngine fills in the GPU of the process.
        cfg.model_wrapper_cfg = dict(wrapper, device_ids=None)
    join_processes(cfg)
    # Without a type in the config, so that other tools can read the one that the run saves.
    with building(cfg):
        check_optimizer(cfg)
        runner = RUNNERS.build(cfg) if "runner_type" in cfg else QuietRunner.from_cfg(cfg)
    apply_policy(runner)
    if cfg.get("decode_on_device"):
        decode_on_device(runner)
    if use_fused(runner.optim_wrapper, runner.model):
        runner.cfg.optim_wrapper.optimizer.fused = True
        runner.dump_config()  # again: the runner does so when it is built
    if resume == "auto":
        latest: list[str | None] = [None]
        if is_main_process():
            latest = [find_last(runner) or latest_checkpoint(runner.work_dir)]
        broadcast_object_list(latest)
        resume = latest[0]
    if resume is not None:
        runner._resume, runner._load_from = True, resume
    return runner


def check_optimizer(cfg: Config) -> None:
    """Raise a ``KeyError`` if no optimizer has the name in a config; MMEngine does not say so."""
    name = ((cfg.get("optim_wrapper") or {}).get("optimizer") or {}).get("type")
    if not isinstance(name, str) or OPTIMIZERS.get(name) is not None:
        return
    near = get_close_matches(name, OPTIMIZERS.module_dict, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UnknownName(f"no optimizer named {name!r}{hint}")
