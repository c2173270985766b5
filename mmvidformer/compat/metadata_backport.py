"""MMAction2 1.2 imports the backport ``importlib_metadata`` but does not declare it.

Symptom: ``ModuleNotFoundError: No module named 'importlib_metadata'`` from
``mmaction.utils.dependency``, unless something else installed it. We declare it, so that this
matters only where packages were installed without their dependencies.
"""

import importlib.metadata
import importlib.util
from types import ModuleType

from mmvidformer.compat.finders import StandIns


def _fill(module: ModuleType) -> None:
    names = importlib.metadata.__all__
    vars(module).update({name: getattr(importlib.metadata, name) for name in names}, __all__=names)


def needed() -> bool:
    """Whether the backport is missing."""
    return importlib.util.find_spec("importlib_metadata") is None


def repair() -> None:
    """Serve the names of the standard library, which took the backport over."""
    StandIns({"importlib_metadata": _fill}).install()
