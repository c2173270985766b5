"""Fixtures of the tests of storage."""

from collections.abc import Iterator

import pytest
from mmengine.registry import DefaultScope


@pytest.fixture
def scope() -> Iterator[None]:
    """As in a config of MMAction2."""
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield
