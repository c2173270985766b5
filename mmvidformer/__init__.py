"""Video transformers for MMAction2: TimeSformer, ViViT, HORST and feature fixation.

Importing the package applies the fixes of ``mmvidformer.compat``, registers the schemes of
``mmvidformer.schemes`` and creates its registries. The registered modules are imported at the first
look-up.
"""

import importlib

from mmvidformer import compat

compat.apply()

from mmvidformer import registry, schemes  # noqa: E402
from mmvidformer.config import get_config, list_models  # noqa: E402
from mmvidformer.version import __version__  # noqa: E402

schemes.register()

__all__ = [
    "__version__",
    "compat",
    "create_model",
    "get_config",
    "list_models",
    "optimize_for_inference",
    "registry",
]

# Imported on demand, because they load the backbones.
_LAZY = {
    "create_model": "mmvidformer.apis",
    "optimize_for_inference": "mmvidformer.models.inference",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
