"""Fixtures of the tests of reading videos."""

import json
import subprocess
import sys

import pytest

from tests.video import numbered_videos


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Written by a process of its own: once decord has read, libvpx's encoder can't be opened."""
    command = [sys.executable, numbered_videos.__file__, str(tmp_path_factory.mktemp("decode"))]
    written = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(written.stdout.splitlines()[-1])
