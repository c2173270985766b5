"""The weights from which the rows of a table start."""

from collections.abc import Mapping

from mmengine.config import Config

from mmvidformer.papers import Options, Row


def start_of(cfg: Config) -> str:
    """Source of the weights that training starts from, or ``random weights``."""
    start = cfg.get("load_from") or cfg.model.backbone.get("init_from")
    return (start.get("source") if isinstance(start, Mapping) else start) or "random weights"


def with_start(cfg: Config, start: str | None) -> Options:
    """Overrides that let a config start from other weights.

    Args:
        cfg: The config.
        start: A source of its backbone's ``init_from``, ``none`` for random weights, or None for
            the config's own.
    """
    if start is None:
        return {}
    if start != "none" and isinstance(cfg.model.backbone.get("init_from"), Mapping):
        return {"load_from": None, "model.backbone.init_from.source": start}
    return {"load_from": None, "model.backbone.init_from": None if start == "none" else start}


def describe_start(row: Row, cfg: Config, published: bool = True) -> str:
    """Say from which weights a row starts and, if others, from which its published figure did."""
    other = f"; the published figure from {row.start}" if published and row.start else ""
    return f"{row.name} starts from {start_of(cfg)}{other}"
