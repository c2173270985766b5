"""Configs: finding and reading them, and what several rooms need to know of one."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.compat.config_names import config_folder
from mmvidformer.lookup import look_up
from mmvidformer.registry import MODELS


def list_configs() -> list[str]:
    """Names of the shipped configs, such as ``'vivit_fe_k400'``."""
    return sorted(path.stem for path in config_folder().glob("*.py"))


def get_config(name: str) -> Config:
    """Read a shipped config.

    Args:
        name: Its name, with or without ``.py``.

    Returns:
        The config with its bases merged.

    Raises:
        KeyError: If there is no such config; the message suggests similar names.
    """
    stem = look_up(list_configs(), name.removesuffix(".py"), "shipped config")
    return Config.fromfile(config_folder() / f"{stem}.py")


def load_config(name: str, options: Mapping[str, object] | None = None) -> Config:
    """Read a config file, or a shipped config by its name, such as ``vivit_fe_k400``.

    Args:
        name: Path or name.
        options: Overrides by dotted key, as given to ``--cfg-options``.

    Raises:
        KeyError: If there is no such config; the message suggests similar names.
    """
    cfg = Config.fromfile(name) if Path(name).is_file() else get_config(config_name(name))
    cfg.merge_from_dict(dict(options or {}))
    return cfg


def config_name(name: str) -> str:
    """Name of a config without scope, folder and suffix."""
    return Path(name.removeprefix("mmvidformer::")).stem


def type_name(part: object) -> str:
    """Class name of a config's part, or of a ``type`` in one, without its scope."""
    kind = part.get("type") if isinstance(part, Mapping) else part
    return kind.rpartition(".")[2] if isinstance(kind, str) else getattr(kind, "__name__", "")


def config_scope(cfg: Config) -> AbstractContextManager:
    """Context in which a config's names are looked up, its ``default_scope``."""
    return DefaultScope.overwrite_default_scope(cfg.get("default_scope", "mmaction"))


def leaf_datasets(dataset: Mapping) -> Iterator[dict]:
    """Configs of the datasets inside wrappers such as ``RepeatDataset`` and ``ConcatDataset``."""
    inner = [*(dataset.get("datasets") or ()), dataset.get("dataset")]
    inner = [one for one in inner if isinstance(one, Mapping)]
    for one in inner:
        yield from leaf_datasets(one)
    if not inner:
        yield dataset


def pipelines(dataset: Mapping) -> Iterator[list[dict]]:
    """Pipelines of a dataset's config and of those that it wraps."""
    for leaf in leaf_datasets(dataset):
        if leaf.get("pipeline"):
            yield leaf["pipeline"]


def is_recurrent(cfg: Config) -> bool:
    """Whether the model goes from frame to frame, as HORST does in its neck."""
    return "neck" in cfg.model


def clip_shape(cfg: Config) -> tuple[int, int, int, int]:
    """Shape (3, T, H, W) of the clips that a config's backbone is built for."""
    backbone = cfg.model.backbone
    defaults = inspect.signature(MODELS.get(backbone.type)).parameters
    frames, size = (backbone.get(k, defaults[k].default) for k in ("clip_len", "img_size"))
    height, width = (size, size) if isinstance(size, int) else size
    return 3, frames, height, width


def frame_shape(cfg: Config) -> tuple[int, int, int]:
    """Shape (3, H, W) of the frames that a config's test pipeline makes.

    Raises:
        ValueError: If no transform sets a size.
    """
    for pipeline in pipelines(cfg.test_dataloader.dataset):
        for transform in reversed(pipeline):
            if "crop_size" in transform:
                side = transform["crop_size"]
                return (3, side, side) if isinstance(side, int) else (3, *side)
            if "scale" in transform and not transform.get("keep_ratio", True):
                width, height = transform["scale"]
                return 3, height, width
    raise ValueError("no transform of the test pipeline sets the size of a frame; give the size")
