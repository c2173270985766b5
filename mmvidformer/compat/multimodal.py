"""MMAction2 1.2's multimodal models do not import with transformers 5.

Symptom: ``import mmaction.models`` dies with ``ImportError: cannot import name
'apply_chunking_to_forward' from 'transformers.modeling_utils'``: having transformers installed,
whatever its version, switches these models on. MMAction2 itself has placeholders for an
environment without transformers; they are used here too.
"""

import importlib.metadata
import importlib.util


def needed() -> bool:
    """Whether MMAction2 meets transformers 5 or newer."""
    if importlib.util.find_spec("mmaction") is None:
        return False
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return False
    return int(version.split(".")[0]) >= 5


def repair() -> None:
    """Tell MMAction2 that the multimodal models are unavailable."""
    from mmaction.utils import dependency

    dependency.WITH_MULTIMODAL = False
