"""Multimodal models of MMAction2 1.2 and MMPretrain 1.2 do not import with newer transformers.

Symptoms: ``import mmaction.models`` dies with ``ImportError: cannot import name
'apply_chunking_to_forward' from 'transformers.modeling_utils'``, ``import mmpretrain.models``,
which turns that error into None, with ``TypeError: NoneType takes no arguments``: having
transformers installed, whatever its version, switches these models on. The name is still there in
transformers 4.54, and gone in 4.56 and 5. Both projects have placeholders for an environment
without transformers; they are used here too.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

from mmvidformer.compat.finders import after_import

_LOST = "apply_chunking_to_forward"


def needed() -> bool:
    """Whether transformers is installed without what MMAction2 imports from it."""
    if importlib.util.find_spec("mmaction") is None:
        return False
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        return False
    # Read, not imported: that takes seconds, which most users need not spend.
    source = Path(spec.submodule_search_locations[0]) / "modeling_utils.py"
    return not source.is_file() or _LOST not in source.read_text(encoding="utf-8")


def _switch_off(dependency: ModuleType) -> None:
    dependency.WITH_MULTIMODAL = False


def repair() -> None:
    """Tell MMAction2, and MMPretrain once it is imported, that these models are unavailable."""
    from mmaction.utils import dependency

    _switch_off(dependency)
    after_import("mmpretrain.utils.dependency", _switch_off)
