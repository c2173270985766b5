"""MMEngine 0.10 needs ``pkg_resources`` to find a package, which setuptools 82 removed.

Symptom: ``No module named 'pkg_resources'`` for a config with ``_base_ = "mmaction::..."``
(open-mmlab/mmengine#1676). A base is read before the imports that the config names, so this repair
comes with the reading of configs. MMAction2's own ``tools/train.py`` needs an older setuptools.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

# Modules that imported the functions.
MODULES = ("mmengine.config.config", "mmengine.utils.package_utils", "mmengine.utils")


def repair() -> None:
    """Give MMEngine functions of the standard library."""
    if find_spec("pkg_resources") is None:
        for name in MODULES:
            vars(import_module(name)).update(
                is_installed=is_installed, get_installed_path=get_installed_path
            )


def is_installed(package: str) -> bool:
    """Tell whether there is a package, named as its module or as pip names it."""
    try:
        get_installed_path(package)
    except (PackageNotFoundError, RuntimeError):
        return False
    return True


def get_installed_path(package: str) -> str:
    """Find the folder of a package, named as its module or as pip names it (``mmaction2``).

    Raises:
        PackageNotFoundError: If there is no such package.
        RuntimeError: If it has no folder of its own.
    """
    spec = find_spec(package) or find_spec(_module_of(package))
    if spec is None or not spec.has_location or spec.origin is None:
        raise RuntimeError(f"the package {package!r} has no folder of its own")
    return str(Path(spec.origin).parent)


def _module_of(package: str) -> str:
    modules = distribution(package).read_text("top_level.txt") or package
    return modules.split("\n")[0]
