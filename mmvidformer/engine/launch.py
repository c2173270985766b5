"""What the tools share: arguments, errors on one line, and runners from start to end."""

import ctypes
import os
import pickle
import sys
import traceback
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from mmengine.config import Config, DictAction
from mmengine.device import get_device
from mmengine.dist import broadcast_object_list, get_world_size, is_main_process
from mmengine.hooks import Hook
from mmengine.registry import RUNNERS
from torch import distributed

from mmvidformer.config import config_name, leaf_datasets
from mmvidformer.datasets.decoding.readers import BACKENDS
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.engine.process_group import LAUNCHERS, join_processes

if TYPE_CHECKING:  # takes seconds to import, and few tools need it
    from mmengine.runner import Runner

Result = TypeVar("Result")

# Default hooks that MMEngine adds itself, unless they are None.
MMENGINE_HOOKS = (
    *("runtime_info", "timer", "sampler_seed"),
    *("logger", "param_scheduler", "checkpoint"),
)

# What mistakes in arguments, configs and files raise before a runner runs.
MISTAKES = (OSError, ValueError, KeyError, ImportError, NotImplementedError, pickle.PickleError)


def run_tool(main: Callable[[], int | None]) -> int:
    """Run the ``main`` of a tool; print a user's mistake as ``error: ...`` without traceback.

    Before a runner runs, mistakes are the errors in ``MISTAKES``, and all errors of a part that is
    built from a config. Then they are ``FloatingPointError`` and errors with ``for_user``.
    Other errors have their traceback, and with ``MMVIDFORMER_DEBUG`` set, mistakes have theirs too.

    Returns:
        The exit status: that of ``main``, 2 for a mistake, 1 for one while a runner runs.
    """
    try:
        keep_freed_memory()
        return main() or 0
    except Exception as error:
        running = getattr(error, "while_running", False)
        if not _print_mistake(error, running):
            raise
        return 1 if running else 2


def keep_freed_memory() -> None:
    """Let glibc reuse the memory of freed tensors instead of returning it to the system.

    On a CPU each pass would map and clear the same pages again. Only without an accelerator, on a
    machine with at least 8 GiB, and if no ``MALLOC_TRIM_THRESHOLD_`` is set.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is None or get_device() != "cpu" or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= 8 << 30:
        set_option(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        set_option(-3, 1 << 30)  # M_MMAP_THRESHOLD


def _print_mistake(error: Exception, running: bool = False) -> bool:
    mistake = isinstance(error, FloatingPointError if running else MISTAKES)
    mistake |= not running and "__init__()" in str(error)  # an argument that a config has wrong
    text = describe(error)
    if not (mistake or running) and "build_from_cfg" in "".join(traceback.format_exception(error)):
        mistake, text = True, f"wrong value in the config? {type(error).__name__}: {text}"
    if not (mistake or hasattr(error, "for_user")) or "MMVIDFORMER_DEBUG" in os.environ:
        return False
    print(f"error: {text}", file=sys.stderr)
    return True


def on_main_process(function: Callable[[], Result]) -> Result:
    """Call a function in the main process and return its result in all processes.

    If it raises an error, the main process of several prints it before all end with status 2:
    launchers kill the rest as soon as one process has ended.
    """
    outcome: list = [None, True]
    if is_main_process():
        try:
            outcome[0] = function()
        except Exception as error:
            if get_world_size() == 1:
                raise
            if not _print_mistake(error):
                traceback.print_exc()
            outcome[1] = False
    broadcast_object_list(outcome)
    if not outcome[1]:
        raise SystemExit(2)
    return outcome[0]


def describe(error: Exception) -> str:
    """Message of an error in words."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if "Original Traceback" in text:  # of a dataloader worker
        text = text.strip().splitlines()[-1]
    text = text.partition(" Please check whether")[0]  # MMEngine's long advice on registries
    return text if " " in text else f"{type(error).__name__}: {text}"


def add_overrides(parser: ArgumentParser) -> None:
    """Add ``--cfg-options``."""
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        type=_override,
        metavar="KEY=VALUE",
        help="overrides of the config; lists as key=[a,b] without blanks, nested keys with dots, "
        "list items by number: a.b.0.c=1",
    )


def _override(text: str) -> str:
    if "=" not in text or any(text.count(a) != text.count(b) for a, b in ("()", "[]")):
        raise ArgumentTypeError(f"must be KEY=VALUE with closed brackets, got {text!r}")
    return text


def add_model_arguments(
    parser: ArgumentParser, checkpoint: bool = True, device: bool = True
) -> None:
    """Add config, ``--cfg-options``, and checkpoint and ``--device`` if wanted.

    Runners choose the device themselves.
    """
    parser.add_argument("config", help="config file, or name of a shipped config")
    if checkpoint:
        parser.add_argument("checkpoint", help="checkpoint file or URL")
    if device:
        parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    add_overrides(parser)


def add_shared_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that training and testing have in common, with MMAction2's names."""
    parser.add_argument(
        "--work-dir",
        help="folder of logs and results (default: the config's work_dir, or "
        "work_dirs/<name of the config>)",
    )
    parser.add_argument(
        "--no-preflight",
        action="store_true",
        help="do not check annotations, config and weights before the start",
    )
    parser.add_argument(
        "--video-backend",
        choices=BACKENDS,
        help="library that decodes videos in all pipelines; default: the config's transforms",
    )
    parser.add_argument(
        "--procs",
        type=_positive,
        metavar="N",
        help="start N processes, one per GPU, or on the CPU without one; for several nodes run the "
        "command on each, with NNODES, NODE_RANK, MASTER_ADDR and PORT set",
    )
    parser.add_argument(
        "--launcher",
        choices=["none", *LAUNCHERS],
        default="none",
        help="what started the processes, if --procs did not",
    )
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def merge_shared_arguments(cfg: Config, args: Namespace) -> None:
    """Write the shared arguments into ``cfg``."""
    os.environ.setdefault("LOCAL_RANK", str(args.local_rank))
    cfg.launcher = args.launcher
    if args.video_backend is not None:
        set_video_backend(cfg, args.video_backend)
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get("work_dir") is None:
        cfg.work_dir = str(Path("work_dirs") / config_name(args.config))


def share_cores(cfg: Config) -> None:
    """Leave cores to the dataloader workers if a single process trains or tests.

    PyTorch starts a thread per core, and at the end of every operator all threads wait for the
    slowest one, which is always late if workers use the same cores. Up to half of the cores are
    left to the workers of the largest dataloader. ``OMP_NUM_THREADS`` takes precedence; with a
    launcher the scripts set it.
    """
    if cfg.launcher != "none" or "OMP_NUM_THREADS" in os.environ:
        return
    loaders = (cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test"))
    workers = max(loader.get("num_workers", 0) for loader in loaders)
    cores = torch.get_num_threads()
    torch.set_num_threads(max(1, cores - min(workers, cores // 2)))


def build_runner(cfg: Config) -> "Runner":
    """Build the runner of ``cfg`` (its ``runner_type``, or MMEngine's ``Runner``).

    Datasets get the config's ``class_names``, for checkpoints. Dataloaders without workers lose the
    settings of workers, which PyTorch refuses there. Default hooks that are None are removed, since
    MMEngine removes only its own. Several processes without an accelerator keep to the CPU.
    """
    share_cores(cfg)
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
    return RUNNERS.build(cfg)


class _Start(Hook):
    """Notes that the first step of a run has begun."""

    begun = False

    def before_train(self, runner: "Runner") -> None:
        self.begun = True

    before_val = before_test = before_train


@contextmanager
def launched(cfg: Config, checks: bool = True, resume: str | None = None) -> Iterator["Runner"]:
    """Join the processes, build the runner, and leave the group at the end.

    The main process finds the checkpoint to resume from for all processes.

    Args:
        cfg: Complete config.
        checks: Whether a ``PreflightHook`` checks the run before its first step.
        resume: Checkpoint to resume from, or ``'auto'`` for the last complete one in the work dir
            if there is one.

    Raises:
        ValueError: If a list of videos is malformed.
        WrongSetup: If the checks find errors.
    """
    from mmvidformer.engine.checkpointing.resume import latest_checkpoint
    from mmvidformer.engine.first_screen import FirstScreenHook, quiet_setup
    from mmvidformer.engine.preflight.lists import explain_list
    from mmvidformer.engine.shared_annotations import shared_annotations

    hooks = {
        "preflight": dict(type="mmvidformer.PreflightHook"),
        **(cfg.get("default_hooks") or {}),
    }
    cfg.default_hooks = hooks if checks else {**hooks, "preflight": None}
    join_processes(cfg)
    threads = torch.get_num_threads()
    try:
        with shared_annotations():
            if resume == "auto":
                resume = on_main_process(lambda: latest_checkpoint(cfg.work_dir))
            if resume is not None:
                cfg.resume, cfg.load_from = True, resume
            with quiet_setup():
                runner = build_runner(cfg)
            runner.register_hook(FirstScreenHook())
            runner.register_hook(start := _Start())
            try:
                yield runner
            except Exception as error:
                error.while_running = start.begun
                if not start.begun and (problem := explain_list(cfg, error)):
                    raise ValueError(problem) from error
                raise
    finally:
        torch.set_num_threads(threads)
        if distributed.is_initialized():
            distributed.destroy_process_group()
