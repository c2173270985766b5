import math
import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

from mmvidformer.config import config_name
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.storage.targets import Target, check_targets
from mmvidformer.video.readers import BACKENDS


def add_overrides(parser: ArgumentParser) -> None:
    """Add ``--cfg-options``."""
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        type=_override,
        metavar="KEY=VALUE",
        help="overrides of the config; lists as key=[a,b] without spaces, nested keys with dots, "
        "list items by number: a.b.0.c=1",
    )


def _override(text: str) -> str:
    is_open = any(text.count(a) != text.count(b) for a, b in ("()", "[]"))
    if "=" not in text or is_open or re.search(r"\w[(\[].*,", text):  # as dict(a=1,b=2)
        raise ArgumentTypeError(f"must be DOTTED.KEY=VALUE with closed brackets, got {text!r}")
    if re.match(r"[^=]*=[^\[(]*\S \S", text):
        raise ArgumentTypeError(f"MMEngine removes spaces from values, got {text!r}")
    return text


def add_model_arguments(
    parser: ArgumentParser, checkpoint: bool | None = True, device: bool = True
) -> None:
    """Add config, ``--cfg-options``, and checkpoint (None: optional) and ``--device`` if wanted."""
    parser.add_argument("config", help="config file, or name of a shipped config")
    if checkpoint is not False:
        text = "file, published://NAME, hf://ORG/NAME or URL"
        text += "" if checkpoint else " (default: the published one of the config)"
        parser.add_argument("checkpoint", nargs=None if checkpoint else "?", help=text)
    if device:
        parser.add_argument("--device", help="such as cuda:1 (default: a GPU if there is one)")
    add_overrides(parser)


def add_classes_argument(parser: ArgumentParser) -> None:
    """Add ``--classes``, whose value ``apis.class_names`` takes."""
    parser.add_argument(
        "--classes",
        nargs="+",
        default=[],
        metavar="FILE",
        help="class names: a text file with one name per line, or a csv file; for several tasks "
        "verb=FILE noun=FILE ... (default: those of the checkpoint, config or dataset, or numbers)",
    )


def add_speed_arguments(parser: ArgumentParser) -> None:
    """Add what makes a model faster and its answers inexact (``apis.self_check``)."""
    parser.add_argument(
        "--int8",
        action="store_true",
        help="linear layers multiply in 8 bits, on a CPU; the first answers are compared with "
        "exact ones, and it ends if more than a tenth differ",
    )
    parser.add_argument(
        "--static",
        type=float,
        metavar="T",
        help="save time on still parts of a video: a patch that changes by at most T of 255 gray "
        "levels from frame to frame is computed once (6 is a start); the first answers are "
        "compared with exact ones, and it ends if more than a tenth differ",
    )


def inexact_options(args: Any) -> dict[str, Any]:
    """Return those of ``add_speed_arguments`` that are given, for ``Recognizer``."""
    values = dict(int8=args.int8 or None, static=args.static)
    return {name: value for name, value in values.items() if value is not None}


def add_force_argument(parser: ArgumentParser) -> None:
    """Add ``--force``, which ``storage.targets.check_targets`` takes."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace results that are there already, when the new ones are whole; without it that "
        "is an error before the work begins",
    )


def check_outputs(options: Mapping[str, Any], targets: Iterable[Target], *outputs: str) -> None:
    """Check the files that a command will write (``check_targets``), against all that it reads.

    Args:
        options: Its options by name, with ``force``.
        targets: The files.
        *outputs: Names of the options that say where to write. All others may name inputs.
    """
    inputs = _texts_of([value for name, value in options.items() if name not in outputs])
    files = [text.rpartition("=")[2] for text in inputs if "=" in text]  # verb=FILE
    check_targets(targets, [*inputs, *files], options["force"])


def _texts_of(value: object) -> list[str]:
    if isinstance(value, str | Path):
        return [str(value)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts_of(item)]
    return []


def add_shared_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that training and testing have in common, with MMAction2's names."""
    parser.add_argument(
        "--work-dir",
        help="folder of logs and results (default: the config's work_dir, or "
        "work_dirs/<name of the config>)",
        metavar="FOLDER",
    )
    parser.add_argument(
        "--video-backend",
        choices=BACKENDS,
        help="library that decodes videos in all pipelines; default: the config's transforms",
    )
    parser.add_argument(
        "--decode-on-device",
        action="store_true",
        help="decode videos on the GPU of the model (TorchCodec), not in dataloader workers",
    )
    parser.add_argument(
        "--shards",
        metavar="FOLDER",
        help="folder or address with the shards of the config's lists (mmvidformer data shard)",
    )
    parser.add_argument(
        "--procs",
        type=positive,
        metavar="N",
        help="start N processes, one per GPU, or on the CPU without one; for several nodes run the "
        "command on each, with NNODES, NODE_RANK, MASTER_ADDR and PORT set",
    )
    parser.add_argument(
        "--launcher",
        choices=["none", "pytorch", "slurm", "mpi"],
        default="none",
        help="what started the processes, if --procs did not",
    )


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def not_negative(text: str) -> int:
    """Read a whole number of at least 0."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a whole number of at least 0, got {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return number


def merge_shared_arguments(cfg: Config, args: Namespace) -> None:
    """Write the shared arguments into ``cfg``."""
    os.environ.setdefault("LOCAL_RANK", "0")
    cfg.launcher = args.launcher
    preflight = dict(type="mmvidformer.PreflightHook")
    cfg.default_hooks = {"preflight": preflight, **(cfg.get("default_hooks") or {})}
    if args.video_backend is not None:
        set_video_backend(cfg, args.video_backend)
    if args.decode_on_device:
        cfg.decode_on_device = True
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get("work_dir") is None:
        cfg.work_dir = str(Path("work_dirs") / config_name(args.config))
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
