"""What the commands that train on your videos have in common."""

import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from mmengine.config import Config

from mmvidformer.config import config_name, load_config
from mmvidformer.datasets.own_videos import SPLITS
from mmvidformer.engine.arguments import add_overrides
from mmvidformer.engine.optim.precision import use_amp


@dataclass(frozen=True)
class RunSettings:
    """Settings of any run; None keeps the config's.

    Attributes:
        epochs: Number of epochs.
        batch: Batch size per process, at most the number of videos per process.
        procs: Number of processes.
        amp: Whether to use mixed precision.
        workers: Number of dataloader workers per process. Default: the config's, but at most the
            number of cores.
        seed: Random seed.
    """

    epochs: int | None = None
    batch: int | None = None
    procs: int = 1
    amp: bool = False
    workers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in dict(epochs=self.epochs, batch=self.batch, procs=self.procs).items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def apply(self, cfg: Config) -> None:
        """Set workers, precision and seed, and remove variables that the data no longer come from.

        Dataloaders that are None stay so.
        """
        for loader in filter(None, (cfg.get(f"{split}_dataloader") for split in SPLITS)):
            own = min(loader.num_workers, os.cpu_count() or 1)
            loader.num_workers = own if self.workers is None else self.workers
        if self.amp:
            use_amp(cfg)
        cfg.randomness = {**(cfg.get("randomness") or {}), "seed": self.seed}
        for name in ("data_root", "augment"):
            cfg.pop(name, None)


Kind = TypeVar("Kind", bound=RunSettings)


def add_run_arguments(parser: ArgumentParser, data: str) -> None:
    """Add config, data, and the settings of a run; None stands for the default of the settings."""
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--data", required=True, help=data)
    parser.add_argument("--work-dir", type=Path, help="default: work_dirs/<config>_<command>")
    parser.add_argument("--epochs", type=int, help="number of epochs")
    parser.add_argument("--batch", type=int, help="batch size per process")
    parser.add_argument(
        "--procs", "--gpus", type=int, help="processes, one per GPU if there are GPUs (default: 1)"
    )
    parser.add_argument("--amp", action="store_true", help="mixed precision (bfloat16 on CPU)")
    parser.add_argument("--workers", type=int, help="dataloader workers per process")
    parser.add_argument("--seed", type=int, help="random seed (default: 0)")
    add_overrides(parser)
    parser.add_argument("--force", action="store_true", help="start again in a used work dir")


def read_settings(kind: type[Kind], args: Namespace) -> Kind:
    """Make settings of the arguments that were given."""
    given = {one.name: getattr(args, one.name) for one in fields(kind)}
    return kind(**{name: value for name, value in given.items() if value is not None})


def read_config(args: Namespace) -> Config:
    """Read the config with the overrides of its backbone, on which much of a recipe depends."""
    options = (args.cfg_options or {}).items()
    return load_config(args.config, {k: x for k, x in options if k.startswith("model.backbone.")})


def config_path(args: Namespace, command: str) -> Path:
    """Return where the complete config of a run goes, ``WORK_DIR/COMMAND/config.py``.

    It is not in the work dir itself, where every run writes its own, also a test with other views.

    Raises:
        FileExistsError: If it is there, and not ``--force``.
    """
    default = Path("work_dirs") / f"{config_name(args.config)}_{command}"
    path = (args.work_dir or default) / command / "config.py"
    if path.exists() and not args.force:
        raise FileExistsError(
            f"{path} exists; mmvidformer train {path} --resume resumes that run, "
            "--force starts again"
        )
    return path
