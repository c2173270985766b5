"""Fixtures of the tests of the benchmarks."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import av
import numpy as np
import pytest


@pytest.fixture(scope="session")
def load() -> Callable:
    """Import a benchmark as a module."""
    return lambda name: import_module(f"benchmarks.{name}")


@pytest.fixture(scope="session")
def main_of() -> Callable:
    """The ``main`` of ``benchmarks/<name>.py``; it runs in this process."""
    return lambda name: import_module(f"benchmarks.{name}").main


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Write frames to a video at 16 frames a second."""
    folder = tmp_path_factory.mktemp("videos")

    def write(name: str, frames: np.ndarray, rotation: int = 0) -> Path:
        with av.open(str(folder / name), "w") as file:
            stream = file.add_stream("mpeg4", rate=16)
            stream.height, stream.width = frames.shape[1:3]
            stream.bit_rate = 4_000_000
            if rotation:
                stream.set_display_rotation(rotation)
            for frame in frames:
                file.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            file.mux(stream.encode())
        return folder / name

    return write
