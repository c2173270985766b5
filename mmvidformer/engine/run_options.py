"""Options that training and testing have in common, with MMAction2's names."""

import os
from dataclasses import dataclass
from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import config_name
from mmvidformer.engine.arguments import positive
from mmvidformer.engine.options import option
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.video.readers import BACKENDS


@dataclass(frozen=True)
class RunnerOptions:
    """Where a run writes, what it reads, and its processes; the config is read by hand."""

    config: str = ""
    work_dir: str | None = option(
        "folder of logs and results (default: the config's work_dir, or "
        "work_dirs/<name of the config>)",
        metavar="FOLDER",
    )
    video_backend: str | None = option(
        "library that decodes videos in all pipelines; default: the config's transforms",
        choices=BACKENDS,
    )
    decode_on_device: bool = option(
        "decode videos on the GPU of the model (TorchCodec), not in dataloader workers",
        False,
        action="store_true",
    )
    shards: str | None = option(
        "folder or address with the shards of the config's lists (mmvidformer data shard)",
        metavar="FOLDER",
    )
    procs: int | None = option(
        "start N processes, one per GPU, or on the CPU without one; for several nodes run the "
        "command on each, with NNODES, NODE_RANK, MASTER_ADDR and PORT set",
        type=positive,
        metavar="N",
    )
    launcher: str = option(
        "what started the processes, if --procs did not (default: none)",
        "none",
        choices=["none", "pytorch", "slurm", "mpi"],
    )

    def merge(self, cfg: Config) -> None:
        """Write the options into a config."""
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


def check_work_dir(folder: str) -> None:
    """Check that a work dir is no address: logs are written to local files.

    Raises:
        UserError: If it is one; names the setting that checkpoints have.
    """
    if "://" in folder:
        setting = f"--cfg-options default_hooks.checkpoint.out_dir={folder}"
        what = f"the work dir must be a local folder, got {folder}"
        raise UserError(f"{what}; checkpoints go there with {setting}")
