"""Multimodal models of MMAction2 1.2 and MMPretrain 1.2 do not import with newer transformers.

Symptoms: ``import mmaction.models`` fails with ``ImportError: cannot import name
'apply_chunking_to_forward' from 'transformers.modeling_utils'``; ``import mmpretrain.models``
replaces the name by None and fails with ``TypeError: NoneType takes no arguments``. Both projects
enable these models if transformers is installed, whatever its version. transformers 4.54 has the
name; 4.56 and 5 do not. The repair uses the projects' own placeholders for an environment without
transformers.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def needed() -> bool:
    """Whether transformers lacks the function that MMAction2 imports from it."""
    spec = find_spec("transformers")
    if spec is None:
        return True
    # The module is not imported, since that takes seconds.
    source = Path(spec.origin).with_name("modeling_utils.py").read_text(encoding="utf-8")
    return "apply_chunking_to_forward" not in source


def repair() -> None:
    """Disable the models in MMAction2, and in MMPretrain if it is installed."""
    for package in ("mmaction", "mmpretrain"):
        if find_spec(package) is not None:
            import_module(f"{package}.utils.dependency").WITH_MULTIMODAL = False
