"""MMEngine 0.10.7 imports ``pkg_resources``, which setuptools 82 removed.

Symptom: ``ModuleNotFoundError: No module named 'pkg_resources'`` from
``mmengine.utils.package_utils`` with setuptools 82, or without setuptools, as in new environments
of Python 3.12. Reference: open-mmlab/mmengine#1676. The repair imports this file under that name:
it defines what MMEngine uses.
"""

import importlib.metadata
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

DistributionNotFound = importlib.metadata.PackageNotFoundError


class Distribution:
    """The part of ``pkg_resources.Distribution`` that MMEngine reads."""

    def __init__(self, name: str) -> None:
        self._distribution = importlib.metadata.distribution(name)
        self.location = os.fspath(self._distribution.locate_file(""))

    def has_metadata(self, name: str) -> bool:
        """Return whether the metadata has a file of that name."""
        return self._distribution.read_text(name) is not None

    def get_metadata(self, name: str) -> str:
        """Return the text of a metadata file, or ``""`` if there is none."""
        return self._distribution.read_text(name) or ""


get_distribution = Distribution


class _Finder:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "pkg_resources":
            return None
        return importlib.util.spec_from_file_location(name, __file__)


def needed() -> bool:
    """Whether ``pkg_resources`` is missing."""
    return importlib.util.find_spec("pkg_resources") is None


def repair() -> None:
    """Provide ``pkg_resources``, based on ``importlib.metadata``."""
    sys.meta_path.append(_Finder)
