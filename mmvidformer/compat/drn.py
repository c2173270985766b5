"""MMAction2 1.2.0's wheel lacks ``mmaction/models/localizers/drn``.

Symptom: ``import mmaction.models``, and with it every registry look-up, fails with
``ModuleNotFoundError``. Reference: open-mmlab/mmaction2#2714.
"""

import sys
from importlib.util import find_spec
from types import ModuleType

from mmvidformer.compat.imports import read_source

PACKAGE = "mmaction.models.localizers.drn"


class DRN:
    """Placeholder for the missing temporal grounding model.

    Raises:
        ImportError: When it is built.
    """

    def __init__(self, *args, **kwargs) -> None:
        raise ImportError(
            "DRN is missing in MMAction2's wheel (open-mmlab/mmaction2#2714); "
            "install MMAction2 from its git repository to use it"
        )


def needed() -> bool:
    """Whether MMAction2 is installed without the model."""
    missing = not read_source("mmaction", "models/localizers/drn/drn.py")
    return missing and find_spec("mmaction") is not None


def repair() -> None:
    """Provide the missing modules, with a placeholder of the model."""
    for name in (PACKAGE, f"{PACKAGE}.drn"):
        vars(sys.modules.setdefault(name, ModuleType(name)))["DRN"] = DRN
