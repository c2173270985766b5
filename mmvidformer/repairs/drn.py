"""MMAction2 1.2.0's wheel lacks ``mmaction/models/localizers/drn``.

Symptom: ``import mmaction.models``, and with it every registry look-up, fails with
``ModuleNotFoundError``. Reference: open-mmlab/mmaction2#2714.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

PACKAGE = "mmaction.models.localizers.drn"


def repair() -> None:
    """Provide the missing modules, without the model."""
    root = Path(find_spec("mmaction").origin).parent
    if not (root / "models/localizers/drn").is_dir():
        for name in (PACKAGE, f"{PACKAGE}.drn"):
            vars(sys.modules.setdefault(name, ModuleType(name)))["DRN"] = None
