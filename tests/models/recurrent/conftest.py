"""The straightforward form of the layer, from the benchmark."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "benchmark_horst.py"


@pytest.fixture(scope="session")
def benchmark() -> ModuleType:
    """The tool that compares the forms, as a module."""
    spec = importlib.util.spec_from_file_location("benchmark_horst", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
