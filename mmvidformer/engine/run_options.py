"""Options of training and testing, with MMAction2's names."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mmvidformer.engine.arguments import parse_views, positive
from mmvidformer.engine.model_options import CHECKPOINT, ConfigOptions, ForceOptions, SpeedOptions
from mmvidformer.engine.options import argument, flag, option
from mmvidformer.errors import UserError
from mmvidformer.video.choices import BACKENDS

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")  # which are names of packages, too

if TYPE_CHECKING:
    from mmengine.config import Config


def log_option() -> Any:
    """Return the field of the trackers that a run logs to."""
    return option("also log to trackers of runs", nargs="+", choices=TRACKERS, type=_installed)


def _installed(name: str) -> str:
    if name in TRACKERS and find_spec(name) is None:
        raise ArgumentTypeError(f"{name} is not installed: pip install {name}")
    return name


@dataclass(frozen=True)
class RunnerOptions(ConfigOptions):
    """A config, where its run writes, what it reads, and its processes."""

    work_dir: str | None = option(
        "folder of logs and results (default: the config's work_dir, or "
        "work_dirs/<name of the config>)",
        metavar="FOLDER",
    )
    video_backend: str | None = option(
        "library that decodes videos in all pipelines; default: the config's transforms",
        choices=BACKENDS,
    )
    decode_on_device: bool = flag(
        "decode videos on the GPU of the model (TorchCodec), not in dataloader workers"
    )
    shards: str | None = option(
        "folder or address with the shards of the config's lists (mmvidformer data shard)",
        metavar="FOLDER",
    )
    log: Sequence[str] | None = log_option()
    procs: int | None = option(
        "start N processes, one per GPU, or on the CPU without one; for several nodes run the "
        "command on each, with NNODES, NODE_RANK, MASTER_ADDR and PORT set",
        type=positive,
    )
    launcher: str = option(
        "what started the processes, if --procs did not (default: none)",
        "none",
        choices=["none", "pytorch", "slurm", "mpi"],
    )

    def merge(self, cfg: Config) -> None:
        """Write the options into a config."""
        from mmvidformer.config import config_name
        from mmvidformer.engine.pipelines import set_video_backend

        os.environ.setdefault("LOCAL_RANK", "0")
        cfg.launcher = self.launcher
        preflight = dict(type="mmvidformer.PreflightHook")
        cfg.default_hooks = {"preflight": preflight, **(cfg.get("default_hooks") or {})}
        if self.video_backend is not None:
            set_video_backend(cfg, self.video_backend)
        if self.decode_on_device:
            cfg.decode_on_device = True
        if self.work_dir is not None:
            cfg.work_dir = self.work_dir
        elif cfg.get("work_dir") is None:
            cfg.work_dir = str(Path("work_dirs") / config_name(self.config))
        check_work_dir(cfg.work_dir)


@dataclass(frozen=True)
class TrainOptions(RunnerOptions):
    """A run of training."""

    force: bool = flag(
        "start again in a work dir with checkpoints, and replace those of the same name"
    )
    resume: str | None = option(
        "resume from this checkpoint; without a path, from the last complete one in the work "
        "dir, or start from the beginning if there is none",
        nargs="?",
        const="auto",
    )
    epochs: int | None = option(
        "train for N epochs in all, with the schedule stretched; with --resume, a finished "
        "run goes on",
        type=positive,
    )
    amp: str | None = option(
        "use mixed precision; auto is fp16 on a GPU and bf16 on a CPU",
        nargs="?",
        const="auto",
        choices=["auto", "fp16", "bf16"],
    )
    no_validate: bool = flag("train without validation")
    auto_scale_lr: bool = flag(
        "scale the learning rate by the real batch over auto_scale_lr.base_batch_size"
    )
    seed: int | None = option("random seed (default: the config's)", type=int)
    diff_rank_seed: bool | None = option(
        "add the number of a process to its seed", action="store_true"
    )
    deterministic: bool | None = option(
        "use deterministic algorithms of cuDNN", action="store_true"
    )
    strategy: str = option(
        "how several processes share the model: a copy in each, or a shard in each",
        "ddp",
        choices=["ddp", "fsdp"],
    )

    def _check(self) -> None:
        if self.force and self.resume:
            raise UserError("--force starts again, and --resume goes on: give one of them")


@dataclass(frozen=True)
class TestOptions(ForceOptions, RunnerOptions, SpeedOptions):
    """A model, what it is tested on, and how."""

    __test__: ClassVar = False  # it is no test of pytest

    checkpoint: str | None = argument(CHECKPOINT, nargs="?")
    views: tuple[int, int] | None = option(
        "temporal clips x spatial crops (1, 3 or 10) of each video (default: the config's)",
        type=parse_views,
        metavar="KxC",
    )
    split: str = option("list to test on; both are tested alike", "test", choices=["test", "val"])
    fuse: str | None = option(
        "average the logits of the views, or their probabilities (default: the config's)",
        choices=["score", "prob"],
    )
    align: bool = flag(
        "move clips by a few frames, so that models of single frames compute those that clips "
        "share once; the scores are not those of the published protocols"
    )
    dump: str | None = option("file of scores and labels: .npz or .pkl", metavar="FILE")
    amp: bool = flag("mixed precision: fp16 on a GPU, bf16 on a CPU")


def check_work_dir(folder: str) -> None:
    """Check that a work dir is no address: logs are written to local files.

    Raises:
        UserError: If it is one; names the setting that checkpoints have.
    """
    if "://" in folder:
        setting = f"--cfg-options default_hooks.checkpoint.out_dir={folder}"
        what = f"the work dir must be a local folder, got {folder}"
        raise UserError(f"{what}; checkpoints go there with {setting}")
