"""Import hooks that the repairs share."""

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serve stand-in modules, but only for names that no other finder knows.

    Args:
        modules: For each full name, a function that fills the fresh module.
    """

    def __init__(self, modules: dict[str, Callable[[ModuleType], None]]) -> None:
        self.modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for the stand-ins' names; being last in ``sys.meta_path`` comes after all."""
        if name not in self.modules:
            return None
        is_package = any(other.startswith(f"{name}.") for other in self.modules)
        return importlib.util.spec_from_loader(name, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module; also called on reload."""
        self.modules[module.__name__](module)

    def install(self) -> None:
        """Append to the import system, once for each set of names."""
        known = (f.modules.keys() for f in sys.meta_path if isinstance(f, StandIns))
        if self.modules.keys() not in known:
            sys.meta_path.append(self)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has run; finds the module through the finders after it.

    It stays in place until then: to look for a module is not yet to import it.
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
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            self.change(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)

        spec.loader.exec_module = run_and_change
        return spec


def after_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call ``change(module)`` now if the module is loaded, else as soon as it has been."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, change))
