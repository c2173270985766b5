"""Configs: finding and reading them, and what several packages need to know of one."""

import fnmatch
import inspect
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

from mmengine.config import Config
from mmengine.utils import import_modules_from_strings

from mmvidformer.catalog import MODELS
from mmvidformer.config import packages
from mmvidformer.config.idle import idle_variables
from mmvidformer.config.rows import find_row, is_row
from mmvidformer.config.shipped import config_folder
from mmvidformer.errors import MissingFile, MissingPackage, UnknownName, UserError
from mmvidformer.lookup import look_up

packages.repair()

PLUGIN = "mmvidformer.registry"
ALIKE = 0.85  # of two names, of which one may be meant: train_dataloader is not val_dataloader
# Files that MMEngine reads as configs.
CONFIG_SUFFIXES = (".py", ".json", ".yaml", ".yml")


def list_models(filter: str = "*", pretrained: bool = False) -> list[str]:
    """Names of the shipped configs, such as ``'vivit_fe_k400'``.

    Args:
        filter: Pattern of the names, with the wildcards of ``fnmatch``.
        pretrained: Whether to list only configs with published weights.
    """
    names = sorted(path.stem for path in config_folder().glob("*.py"))
    if pretrained:
        from mmvidformer.checkpoints.published import by_name  # loads all converters

        names = [name for name in names if name in by_name()]
    return fnmatch.filter(names, filter)


def get_config(name: str) -> Config:
    """Read a shipped config, with its bases merged.

    Args:
        name: Name of the config, with or without ``.py``, of one for another task than one class
            (``configs/tasks``), of a paper's row, such as ``vivit/table2/model_3``, or of a file of
            MMAction2, ``mmaction::recognition/...``.

    Raises:
        KeyError: If there is no such config. The message suggests similar names.
        UserError: If the row cannot be run.
    """
    if is_row(name):
        return load_config(*find_row(name).recipe())
    if is_of_mmaction2(name):
        return read_config(_mmaction2_file(name))
    folder = config_folder()
    files = {path.stem: path for path in (*folder.glob("*.py"), *folder.glob("tasks/*.py"))}
    return read_config(look_up(files, name.removesuffix(".py"), "shipped config"))


def load_config(name: str, options: Mapping[str, object] | None = None) -> Config:
    """Read a config file, or what ``get_config`` reads by its name.

    Args:
        name: Path or name.
        options: Overrides by dotted key, as given to ``--cfg-options``.

    Raises:
        FileNotFoundError: If there is no such file, and no shipped config of its name.
        KeyError: As ``get_config``.
        UserError: As ``get_config``, or if the file is no config, sets a variable that changes
            nothing (``idle_variables``), or the overrides do not fit it.
    """
    if "://" in name or Path(name).is_dir():
        command = f"mmvidformer convert {name} NEW.pth --config-out NEW.py"
        raise UserError(f"{name} is no config; of weights, {command} writes one that fits")
    if not Path(name).is_file():
        try:
            cfg = get_config(config_name(name))
        except UnknownName as error:
            if name.endswith(".py"):
                raise MissingFile(f"{name} does not exist, and {error}") from error
            raise
    elif Path(name).suffix not in CONFIG_SUFFIXES:
        hint = "a checkpoint stands after its config; examples/onnx_video.py runs exported models"
        raise UserError(f"{name} is no config ({', '.join(CONFIG_SUFFIXES)}); {hint}")
    else:
        try:
            cfg = read_config(name)
        except Exception as error:  # a config is a program
            reason = (str(error).splitlines() or [""])[0]
            raise UserError(f"{name} cannot be read: {type(error).__name__}: {reason}") from error
        for problem in idle_variables(name):
            raise UserError(problem)
    merge_overrides(cfg, options)
    return cfg


def read_config(file: str | Path) -> Config:
    """Read a config file, and import what it names (``import_modules``)."""
    cfg = Config.fromfile(file, import_custom_modules=False)
    import_modules(cfg)
    return cfg


def import_modules(cfg: Config) -> None:
    """Import what a config names, but not the plugin: answers do without it.

    Raises:
        UserError: If a module cannot be imported.
    """
    named = cfg.get("custom_imports") or {}
    modules = named.get("imports") or []
    others = [
        name for name in ([modules] if isinstance(modules, str) else modules) if name != PLUGIN
    ]
    try:
        import_modules_from_strings(**{**named, "imports": others})
    except ImportError as error:
        raise MissingPackage(
            f"custom_imports of the config: {error}; modules are found in PYTHONPATH and, by "
            "python -m mmvidformer, in the current folder (lab: the folder of a clone)"
        ) from error


def merge_overrides(cfg: Config, options: Mapping[str, object] | None) -> None:
    """Merge overrides by dotted key into a config, in place.

    A dictionary with ``_delete_`` replaces what was there, of a list, too.

    Raises:
        UserError: If a key does not fit the config, is almost one of it, or changes nothing
            (``idle_variables``).
    """
    if not options:
        return
    if cfg.filename:
        for problem in idle_variables(cfg.filename, options):
            raise UserError(problem)
    for key in options:
        name = key.partition(".")[0]
        close = [] if name in cfg else get_close_matches(name, cfg, 1, ALIKE)
        if close:
            raise UserError(f"overrides: the config has no {name}; did you mean {close[0]}?")
    try:
        cfg.merge_from_dict(_empty_items(cfg, deepcopy(dict(options))))  # it changes the values
    except (KeyError, TypeError) as error:
        reason = shorten(str(error.args[0]), 150, placeholder=" ...")
        raise UserError(f"overrides {', '.join(options)} do not fit: {reason}") from error
    import_modules(cfg)


def _empty_items(cfg: Config, options: dict[str, Any]) -> dict[str, Any]:
    """Empty the items of lists that overrides replace, which MMEngine would merge with the old."""
    for key, value in options.items():
        *parents, last = key.split(".")
        if last.isdigit() and isinstance(value, dict) and "_delete_" in value:
            options[key] = {name: item for name, item in value.items() if name != "_delete_"}
            node: Any = cfg
            for part in parents:
                node = node[int(part) if isinstance(node, list) else part]
            node[int(last)].clear()
    return options


def config_name(name: str) -> str:
    """Name of a config without scope, folder and suffix; a row's and MMAction2's stay."""
    return name if is_row(name) or is_of_mmaction2(name) else Path(name).stem


def is_of_mmaction2(name: str) -> bool:
    """Whether a name is that of a config file of the installed MMAction2."""
    return name.startswith("mmaction::")


def _mmaction2_file(name: str) -> Path:
    spec = find_spec("mmaction")
    if spec is None or spec.origin is None:
        raise MissingPackage(f"{name} is a config of MMAction2, which is not installed")
    file = Path(spec.origin).parent / ".mim" / "configs" / name.partition("::")[2]
    if not file.is_file():
        raise UnknownName(f"the installed MMAction2 has no {file}")
    return file


def type_name(part: object) -> str:
    """Class name of a part of a config, or of the ``type`` in one, without its scope."""
    cls = part.get("type") if isinstance(part, Mapping) else part
    return cls.rpartition(".")[2] if isinstance(cls, str) else getattr(cls, "__name__", "")


def leaf_datasets(dataset: dict) -> Iterator[dict]:
    """Configs of the datasets inside wrappers such as ``RepeatDataset`` and ``ConcatDataset``."""
    members = [*(dataset.get("datasets") or ()), dataset.get("dataset")]
    wrapped = [member for member in members if isinstance(member, dict)]
    for member in wrapped:
        yield from leaf_datasets(member)
    if not wrapped:
        yield dataset


def pipelines(dataset: dict) -> Iterator[list[dict]]:
    """Pipelines of a dataset config and of the datasets that it wraps."""
    for leaf in leaf_datasets(dataset):
        if leaf.get("pipeline"):
            yield leaf["pipeline"]


def check_model(cfg: Config) -> None:
    """Raise a ``UserError`` if a config has no model."""
    if not isinstance(cfg.get("model") or 0, Mapping):
        raise UserError(f"{cfg.filename or 'the config'} has no model")


def is_recurrent(cfg: Config) -> bool:
    """Whether the model processes one frame after the other, as HORST does."""
    check_model(cfg)
    return type_name(cfg.model) == "RecurrentRecognizer"


def clip_shape(cfg: Config) -> tuple[int, int, int, int]:
    """Shape (3, T, H, W) of the clips that the backbone of a config is built for."""
    backbone = cfg.model.backbone
    defaults = inspect.signature(MODELS.get(backbone.type)).parameters
    frames = backbone.get("clip_len", defaults["clip_len"].default)
    size = backbone.get("img_size", defaults["img_size"].default)
    height, width = (size, size) if isinstance(size, int) else size
    return 3, frames, height, width


def view_shape(cfg: Config) -> tuple[int, int, int, int]:
    """Shape (3, T, H, W) of a test clip. T is 8 if a recurrent config does not determine it.

    Raises:
        UserError: If no transform of a recurrent config sets the size of a frame.
    """
    if not is_recurrent(cfg):
        return clip_shape(cfg)
    for size in map(frame_size, pipelines(cfg.test_dataloader.dataset)):
        if size is not None:
            frames = cfg.model.cls_head.get("horizon") or cfg.model.backbone.get("clip_len") or 8
            return 3, frames, *size
    raise UserError("no transform of the test pipeline sets the size of a frame; give the size")


def frame_size(pipeline: Sequence[Mapping]) -> tuple | None:
    """Height and width of the frames that a pipeline makes; None if they depend on the video."""
    for transform in reversed(pipeline):
        name = type_name(transform)
        crop = transform.get("crop_size", transform.get("size"))
        if name.endswith(("Crop", "ScaleJitter")) and crop is not None:
            return tuple(reversed(crop)) if isinstance(crop, Sequence) else (crop, crop)
        if name in ("Resize", "RandomRescale", "RandomResizedCrop", "MultiScaleCrop"):
            scale = transform.get("scale")
            fixed = isinstance(scale, Sequence) and not transform.get("keep_ratio", True)
            return (scale[1], scale[0]) if fixed else None
    return None
