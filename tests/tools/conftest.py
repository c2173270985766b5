"""Fixtures of the tests of the command-line tools."""

import copy
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from mmengine.config import Config

ROOT = Path(__file__).parents[2]


def load_tool(name: str) -> ModuleType:
    """Import ``tools/<name>.py``, which is no package."""
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tools() -> Path:
    """Folder of the tools."""
    return ROOT / "tools"


@pytest.fixture(scope="session")
def weights() -> Callable:
    """Read the weights of a checkpoint file."""
    return lambda path: torch.load(path, weights_only=True)["state_dict"]


@pytest.fixture(scope="session")
def train() -> Callable:
    """The ``main`` of ``tools/train.py``; it runs in this process."""
    return load_tool("train").main


@pytest.fixture(scope="session")
def test() -> Callable:
    """The ``main`` of ``tools/test.py``; it runs in this process."""
    return load_tool("test").main


@pytest.fixture(scope="session")
def load() -> Callable:
    """Import a tool as a module."""
    return load_tool


@pytest.fixture(scope="session")
def main_of() -> Callable:
    """The ``main`` of ``tools/<name>.py``; it runs in this process."""
    return lambda name: load_tool(name).main


@pytest.fixture(scope="session")
def run() -> Callable:
    """Start a command with one thread a process and no GPU; gives the Popen object."""

    inherited = os.environ.get("PYTHONPATH", "")

    def start(*command: object, **variables: object) -> subprocess.Popen:
        env = dict(
            os.environ,
            PYTHON=sys.executable,
            PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests" / "tools"), inherited]),
            OMP_NUM_THREADS="1",
            MKL_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="",
        )
        env.update({name: str(value) for name, value in variables.items()})
        return subprocess.Popen(
            list(map(str, command)),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def make_config(tiny_videos, tmp_path_factory) -> Callable:
    """Write a variant of the tiny config to a file; gives its path."""

    def make(name: str, **changes: object) -> Path:
        cfg = Config.fromfile(Path(__file__).parent / "tiny_vivit.py")
        for split, videos in (
            ("train", tiny_videos.train),
            ("val", tiny_videos.val),
            ("test", tiny_videos.val),
        ):
            dataset = cfg[f"{split}_dataloader"].dataset
            dataset.ann_file = str(videos)
            dataset.data_prefix.video = str(tiny_videos.root)
        cfg.merge_from_dict(copy.deepcopy(changes))  # it consumes _delete_
        path = tmp_path_factory.mktemp("config") / f"{name}.py"
        cfg.dump(path)
        return path

    return make
