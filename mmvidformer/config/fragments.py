"""Fragments of configs: dicts that are merged into one, and say what a child config would say.

What a fragment does not name stays. A dict with ``_delete_=True`` replaces that of the config, as
in any config of MMEngine.
"""

from collections.abc import Mapping
from typing import Any

from mmengine.config import Config, ConfigDict

Fragment = dict[str, Any]
Change = tuple[Fragment, list[str]]  # and what to tell about it


def merge(cfg: Config, fragment: Mapping[str, Any]) -> None:
    """Merge a fragment into a config, in place. Other configs do not change with it."""
    cfg.merge_from_dict(ConfigDict(fragment))


def replace(part: Mapping[str, Any], name: str, values: Mapping[str, Any]) -> Fragment:
    """Return the fragment of a part of a config that replaces one of its dicts, or adds it.

    MMEngine would keep ``_delete_`` as an argument where there is nothing to delete.
    """
    deletes = {"_delete_": True} if name in part else {}
    return {name: {**deletes, **values}}


def without(part: Mapping[str, Any] | None, *names: str) -> dict[str, Any]:
    """Return a copy of a part of a config that lacks some arguments."""
    return {name: value for name, value in (part or {}).items() if name not in names}
