"""The benchmark's straightforward form of the layer."""

from types import ModuleType

import pytest

from benchmarks import horst


@pytest.fixture(scope="session")
def benchmark() -> ModuleType:
    """The benchmark module that compares the forms."""
    return horst
