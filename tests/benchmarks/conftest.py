"""Fixtures of the tests of the benchmarks."""

from collections.abc import Callable
from importlib import import_module

import pytest


@pytest.fixture(scope="session")
def load() -> Callable:
    """Import a benchmark as a module."""
    return lambda name: import_module(f"benchmarks.{name}")


@pytest.fixture(scope="session")
def main_of() -> Callable:
    """The ``main`` of ``benchmarks/<name>.py``; it runs in this process."""
    return lambda name: import_module(f"benchmarks.{name}").main
