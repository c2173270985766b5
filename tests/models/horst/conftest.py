"""The straightforward form of the layer, from the benchmark."""

from types import ModuleType

import pytest

from benchmarks import horst


@pytest.fixture(scope="session")
def benchmark() -> ModuleType:
    """The benchmark that compares the forms, as a module."""
    return horst
