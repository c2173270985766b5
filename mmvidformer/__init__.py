"""Video transformers for MMAction2: TimeSformer, ViViT, HORST and feature fixation.

``mmvidformer.layers`` and ``mmvidformer.models`` are plain PyTorch. ``mmvidformer.registry`` is the
plugin for MMAction2: configs import it.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Imported on demand: layers and models need none of it.
_LAZY = {
    "create_model": "mmvidformer.apis",
    "get_config": "mmvidformer.config",
    "list_models": "mmvidformer.config",
    "optimize_for_inference": "mmvidformer.models.fast.inference",
    "optimize_for_training": "mmvidformer.models.fast.training",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
