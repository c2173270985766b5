"""Whose models the rows of papers are, which is asked of hundreds to collect the slow tests."""

from functools import cache

from lab.papers.rows import PublishedRow
from lab.papers.summary import is_of_others
from mmvidformer.config import load_config

OF_BACKBONES = ("model", "model.backbone", "model.backbone.type")


def of_others(row: PublishedRow) -> bool:
    """Whether the backbone is MMAction2's: that of the row's config, unless its options set one."""
    options = {key: value for key, value in row.options.items() if key in OF_BACKBONES}
    return is_of_others(load_config(row.config, options)) if options else _of_others(row.config)


@cache
def _of_others(config: str) -> bool:
    return is_of_others(load_config(config))
