"""Changing modules of other packages as they are imported."""

import importlib.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _AfterImport(importlib.abc.MetaPathFinder):
    """Call a function after a module has been executed.

    The finders after it find the module. It stays installed until then, since a module may be
    looked for without being imported.
    """

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self.name, self.change = name, change

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (other.find_spec(name, path, target) for other in others)), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            self.change(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)

        spec.loader.exec_module = execute_and_change
        return spec


def after_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call ``change(module)`` now if the module is loaded, otherwise once it is imported."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, change))
