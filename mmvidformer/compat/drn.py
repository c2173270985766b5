"""MMAction2 1.2.0's wheel lacks ``mmaction/models/localizers/drn``.

Symptom: ``import mmaction.models``, and with it every registry look-up, dies with
``ModuleNotFoundError``. Reference: open-mmlab/mmaction2#2714.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

from mmvidformer.compat.finders import StandIns

PACKAGE = "mmaction.models.localizers.drn"


class DRN:
    """Stand-in for the temporal grounding model that is missing.

    Raises:
        ImportError: When it is built.
    """

    def __init__(self, *args, **kwargs) -> None:
        raise ImportError(
            "DRN is not in MMAction2's wheel (open-mmlab/mmaction2#2714); "
            "install MMAction2 from its git repository to use it"
        )


def _fill_module(module: ModuleType) -> None:
    module.DRN = DRN


def needed() -> bool:
    """Whether MMAction2 is installed without the folder."""
    spec = importlib.util.find_spec("mmaction")
    if spec is None or not spec.submodule_search_locations:
        return False
    root = Path(spec.submodule_search_locations[0])
    return not (root / "models" / "localizers" / "drn").is_dir()


def repair() -> None:
    """Serve the package with a DRN that cannot be built."""
    StandIns({PACKAGE: lambda module: None, f"{PACKAGE}.drn": _fill_module}).install()
