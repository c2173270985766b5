"""MMEngine 0.10.7 imports ``pkg_resources``, which setuptools 82 removed.

Symptom: ``ModuleNotFoundError: No module named 'pkg_resources'`` from
``mmengine.utils.package_utils``, with setuptools 82 or, as in new environments of Python 3.12,
with none. Reference: open-mmlab/mmengine#1676. MMEngine uses no more than what stands here.
"""

import importlib.metadata
import importlib.util
import os
from types import ModuleType

from mmvidformer.compat.finders import StandIns


class DistributionNotFound(Exception):
    """No distribution of that name is installed."""


class Distribution:
    """The part of ``pkg_resources.Distribution`` that MMEngine reads."""

    def __init__(self, name: str) -> None:
        self._distribution = importlib.metadata.distribution(name)

    @property
    def location(self) -> str:
        """Folder that the distribution is installed in."""
        return os.fspath(self._distribution.locate_file(""))

    @property
    def version(self) -> str:
        """Installed version."""
        return self._distribution.version

    def has_metadata(self, name: str) -> bool:
        """Whether the metadata holds a file of that name."""
        return self._distribution.read_text(name) is not None

    def get_metadata(self, name: str) -> str:
        """Text of a metadata file, empty where there is none."""
        return self._distribution.read_text(name) or ""


def get_distribution(name: str) -> Distribution:
    """Find an installed distribution.

    Raises:
        DistributionNotFound: If there is none of that name.
    """
    try:
        return Distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise DistributionNotFound(name) from error


def _fill(module: ModuleType) -> None:
    module.DistributionNotFound = DistributionNotFound
    module.Distribution = Distribution
    module.get_distribution = get_distribution


def needed() -> bool:
    """Whether ``pkg_resources`` is missing."""
    return importlib.util.find_spec("pkg_resources") is None


def repair() -> None:
    """Serve a ``pkg_resources`` of three names, on top of ``importlib.metadata``."""
    StandIns({"pkg_resources": _fill}).install()
