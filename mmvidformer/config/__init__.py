"""Configs: finding and reading them, and what several packages need to know of one."""

import ast
import fnmatch
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from textwrap import shorten

from mmengine.config import Config
from mmengine.config.utils import ConfigParsingError
from mmengine.fileio import load
from mmengine.utils import import_modules_from_strings

from mmvidformer.catalog import MODELS
from mmvidformer.config import packages
from mmvidformer.config.rows import find_row, is_row
from mmvidformer.config.shipped import config_folder
from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up

packages.repair()

PLUGIN = "mmvidformer.registry"
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
            (``configs/tasks``), or of a paper's row, such as ``vivit/table2/model_3``.

    Raises:
        KeyError: If there is no such config. The message suggests similar names.
        UserError: If the row cannot be run.
    """
    if is_row(name):
        return load_config(*find_row(name).recipe())
    folder = config_folder()
    files = {path.stem: path for path in (*folder.glob("*.py"), *folder.glob("tasks/*.py"))}
    return read_config(look_up(files, name.removesuffix(".py"), "shipped config"))


def load_config(name: str, options: Mapping[str, object] | None = None) -> Config:
    """Read a config file, or what ``get_config`` reads by its name.

    Args:
        name: Path or name.
        options: Overrides by dotted key, as given to ``--cfg-options``.

    Raises:
        KeyError: As ``get_config``.
        UserError: As ``get_config``, or if the file is no config, sets a variable that changes
            nothing (``idle_variables``), or the overrides do not fit it.
    """
    if "://" in name or Path(name).is_dir():
        command = f"mmvidformer convert {name} NEW.pth --config-out NEW.py"
        raise UserError(f"{name} is no config; of weights, {command} writes one that fits")
    if not Path(name).is_file():
        cfg = get_config(config_name(name))
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
    """Read a config file, and import what it names, but not the plugin: answers do without it."""
    cfg = Config.fromfile(file, import_custom_modules=False)
    named = cfg.get("custom_imports") or {}
    modules = named.get("imports") or []
    others = [
        name for name in ([modules] if isinstance(modules, str) else modules) if name != PLUGIN
    ]
    if others:
        import_modules_from_strings(**{**named, "imports": others})
    return cfg


def merge_overrides(cfg: Config, options: Mapping[str, object] | None) -> None:
    """Merge overrides by dotted key into a config, in place.

    Raises:
        UserError: If a key does not fit the config, or changes nothing (``idle_variables``).
    """
    if not options:
        return
    if cfg.filename:
        for problem in idle_variables(cfg.filename, options):
            raise UserError(problem)
    try:
        cfg.merge_from_dict(deepcopy(dict(options)))  # it would change the values
    except (KeyError, TypeError) as error:
        reason = shorten(str(error.args[0]), 150, placeholder=" ...")
        raise UserError(f"overrides {', '.join(options)} do not fit: {reason}") from error


def idle_variables(path: str, overrides: Iterable[str] = ()) -> list[str]:
    """Find variables of a config that change nothing, since MMEngine runs its bases first.

    A base may build its dataloaders from ``data_root``, say. Whoever sets that afterwards, in a
    config that inherits it or as an override, does not change the dataloaders.

    Args:
        path: Config file.
        overrides: Overrides by dotted key, to be checked in place of the variables of the files.

    Returns:
        A description of each.
    """
    try:
        chain = _chain(path)
        uses = _uses(chain)
    except (OSError, SyntaxError, ConfigParsingError):  # MMEngine's {{...}}, which is no Python
        return []
    if overrides:
        names = {key.partition(".")[0] for key in overrides} & uses.keys()
        idle = [("--cfg-options", name, _built_from(name, uses)) for name in sorted(names)]
    else:
        idle = [variable for file in chain for variable in _find_idle(file, chain)]
    return [
        f"{where}: {name} has no effect, since {', '.join(sorted(settings))} was built from the "
        "old value; change that instead"
        for where, name, settings in idle
        if settings
    ]


def _find_idle(file: str, chain: Sequence[str]) -> Iterator[tuple[str, str, set[str]]]:
    """Yield variables of a file of a chain that its bases used before, and what they built."""
    read_by_heirs: set[str] = set()
    for heir in chain:
        if file in _chain(heir)[1:]:
            read_by_heirs = read_by_heirs.union(*_uses_of(heir).values())
    set_here = _uses_of(file)
    set_before = _uses(_chain(file)[1:])
    read_here: set[str] = set().union(*set_here.values())
    for name in sorted((set_here.keys() & set_before.keys()) - read_here):
        settings = _built_from(name, set_before) - set_here.keys()
        if f"_base_.{name}" in read_by_heirs or not settings:
            continue
        value = Config.fromfile(file).get(name)
        values_before = [Config.fromfile(base).get(name, value) for base in _bases(file)]
        if any(before != value for before in values_before):
            yield file, name, settings


def _bases(file: str) -> list[str]:
    paths = [Config._get_cfg_path(base, file)[0] for base in Config._get_base_files(file)]
    return [os.path.normpath(path) for path in paths]


def _chain(file: str) -> list[str]:
    """Return a config file, its bases, and theirs."""
    chain = [file]
    for base in _bases(file):
        chain += _chain(base)
    return chain


def _uses(files: Iterable[str]) -> dict[str, set[str]]:
    """Return names that files set, each with the names that were read for it, in any of them."""
    uses: dict[str, set[str]] = {}
    for file in files:
        for name, read in _uses_of(file).items():
            names_read = {variable.removeprefix("_base_.") for variable in read}
            uses.setdefault(name, set()).update(names_read)
    return uses


def _uses_of(file: str) -> dict[str, set[str]]:
    """Return names that a file sets, each with what was read for it: ``x``, ``_base_.x``."""
    of_bases = r"_base_\.\w+"
    text = Path(file).read_text(encoding="utf-8")
    if not file.endswith(".py"):
        return {name: set(re.findall(of_bases, text)) for name in load(file)}
    uses: dict[str, set[str]] = {}
    for statement in ast.parse(text).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        read |= set(re.findall(of_bases, ast.unparse(statement)))
        written = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        written.add(getattr(statement, "name", ""))  # of a function
        for name in written - {"_base_"}:
            uses.setdefault(name, set()).update(read - {"_base_"})
    return uses


def _built_from(name: str, uses: Mapping[str, set[str]]) -> set[str]:
    """Return the settings of a run that were built from a variable, unless it is one itself."""
    from mmengine.runner import Runner  # takes seconds

    reached, count = {name}, 0
    while len(reached) > count:
        count = len(reached)
        reached |= {target for target, read in uses.items() if read & reached}
    settings = inspect.signature(Runner).parameters.keys()
    return set() if name in settings else reached & settings


def config_name(name: str) -> str:
    """Name of a config without scope, folder and suffix; that of a row is unchanged."""
    return name if is_row(name) else Path(name).stem


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
    if not cfg.get("model"):
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
