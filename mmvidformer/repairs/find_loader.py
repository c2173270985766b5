"""MMEngine 0.10 and mmcv 2 need ``pkgutil.find_loader``, which Python 3.14 removed.

Symptom: every ``Runner`` fails with ``module 'pkgutil' has no attribute 'find_loader'``.
"""

import pkgutil
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace


def repair() -> None:
    """Give its successor to the modules that call it, to see whether mmcv has compiled parts."""
    if not hasattr(pkgutil, "find_loader"):
        for name in ("mmengine.utils.dl_utils.misc", "mmcv.utils.ext_loader"):
            import_module(name).pkgutil = SimpleNamespace(find_loader=find_spec)
