"""The configs that ship with the package."""

from difflib import get_close_matches

from mmengine.config import Config

from mmvidformer.compat.config_names import config_folder


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
        KeyError: If there is no such config; the message names those that look alike.
    """
    stem = name.removesuffix(".py")
    names = list_configs()
    if stem not in names:
        near = get_close_matches(stem, names, n=3, cutoff=0.4) or names
        raise KeyError(f"no shipped config named {stem!r}; did you mean {', '.join(near)}?")
    return Config.fromfile(config_folder() / f"{stem}.py")
