"""Fixtures of the tests of tasks."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tiny_videos, tmp_path: Path) -> Path:
    """A folder with two videos of 2 s."""
    for name in ("val_0.mp4", "val_1.mp4"):
        (tmp_path / name).symlink_to(tiny_videos.root / name)
    return tmp_path
