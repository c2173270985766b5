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


def repair() -> None:
    """Disable the models in MMAction2, and in MMPretrain if it is installed."""
    for package in ("mmaction", "mmpretrain"):
        if find_spec(package) is not None:
            dependency = import_module(f"{package}.utils.dependency")
            if dependency.satisfy_requirement("transformers>=4.55"):
                dependency.WITH_MULTIMODAL = False
