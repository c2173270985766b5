"""MMAction2 1.2.0's wheel lacks ``mmaction/models/localizers/drn``.

Symptom: ``import mmaction.models``, and with it every registry look-up, fails with
``ModuleNotFoundError``. Reference: open-mmlab/mmaction2#2714.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

PACKAGE = "mmaction.models.localizers.drn"


class DRN:
    """Placeholder for the missing temporal grounding model."""

    def __init__(self, *args, **kwargs) -> None:
        raise ImportError(
            "DRN is missing in MMAction2's wheel (open-mmlab/mmaction2#2714); "
            "install MMAction2 from its git repository to use it"
        )


def needed() -> bool:
    """Whether the installed MMAction2 lacks the model."""
    root = Path(find_spec("mmaction").origin).parent
    return not (root / "models/localizers/drn").is_dir()


def repair() -> None:
    """Provide the missing modules, with a placeholder of the model."""
    for name in (PACKAGE, f"{PACKAGE}.drn"):
        vars(sys.modules.setdefault(name, ModuleType(name)))["DRN"] = DRN
