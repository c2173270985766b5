"""Video transformers for MMAction2: TimeSformer, ViViT, HORST and feature fixation.

Importing the package applies the fixes of ``mmvidformer.compat``, registers the schemes of
``mmvidformer.schemes`` and creates its registries. The registered modules are imported at the first
look-up.
"""

from mmvidformer import compat

compat.apply()

from mmvidformer import registry, schemes  # noqa: E402
from mmvidformer.config import get_config, list_configs  # noqa: E402
from mmvidformer.version import __version__  # noqa: E402

schemes.register()

__all__ = [
    "__version__",
    "compat",
    "get_config",
    "list_configs",
    "optimize_for_inference",
    "registry",
]


def __getattr__(name: str) -> object:
    # Imported on demand, because it loads the backbones.
    if name == "optimize_for_inference":
        from mmvidformer.models.inference import optimize_for_inference

        return optimize_for_inference
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
