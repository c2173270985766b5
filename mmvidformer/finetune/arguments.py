"""What the commands that train on your videos have in common."""

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from mmvidformer.config import config_name
from mmvidformer.engine.arguments import add_overrides

T = TypeVar("T")


def add_run_arguments(parser: ArgumentParser, data: str) -> None:
    """Add config, data, and the settings of a run; None stands for the default of the settings."""
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--data", required=True, help=data)
    parser.add_argument(
        "--work-dir", type=Path, help="default: work_dirs/<name of the config>_<command>"
    )
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


def read_settings(kind: type[T], args: Namespace) -> T:
    """Make settings, a dataclass, of the arguments that were given."""
    given = {one.name: getattr(args, one.name) for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in given.items() if value is not None})


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
