"""Fixtures of the tests of the engine; see ``toys``."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from mmengine.runner import Runner

from tests.engine.toys import Numbers, run_group, toy_runner


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., Runner]:
    """Build a toy runner in a folder below ``tmp_path``."""
    count = itertools.count()

    def build(folder: str = "run", **changes) -> Runner:
        name = f"{tmp_path.name}_{folder}_{next(count)}"
        return toy_runner(tmp_path / folder, name, **changes)

    build.dataset = Numbers()
    return build


@pytest.fixture
def in_processes(tmp_path: Path) -> Callable:
    """Call a function of a module in a gloo group of n processes; returns the results by rank."""
    calls = itertools.count()
    return lambda n, function, *args: run_group(n, function, tmp_path / f"call{next(calls)}", args)
