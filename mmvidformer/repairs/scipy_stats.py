"""MMAction2 1.2 imports SciPy's statistics for one function of one transform of poses.

Symptom: a dataloader's worker takes twice as long to start, and so does all else that reads videos.
The repair puts a module in their place while MMAction2's transforms are imported; SciPy's own is
imported when something of it is used.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

NAME = "scipy.stats"


class _Statistics(ModuleType):
    """What else is imported meanwhile finds all of SciPy's names here."""

    @staticmethod
    def mode(*args: object, **options: object) -> object:
        return import_module(NAME).mode(*args, **options)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # MMEngine's registries ask each module for its file
            raise AttributeError(name)
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
        return getattr(import_module(NAME), name)


def repair() -> None:
    """Import the transforms without SciPy's statistics, unless these have been imported."""
    if NAME in sys.modules:
        return
    spec, stand_in = find_spec(NAME), _Statistics(NAME)
    stand_in.__file__, stand_in.__path__ = spec.origin, spec.submodule_search_locations
    sys.modules[NAME] = stand_in
    try:
        import_module("mmaction.datasets.transforms")
    finally:
        if sys.modules.get(NAME) is stand_in:
            del sys.modules[NAME]
