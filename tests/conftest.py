"""Fixtures of all tests."""

import atexit
import faulthandler
import gc
import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import util
from pathlib import Path
from types import ModuleType

# Tests share few cores, and what is computed is small: a thread that waits for another spins longer
# than it computes. Libraries read this when they are loaded, also those of processes started here.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import yaml

from tests.longest_files import longest_first
from tests.storage_server import Proxy, s3_server
from tests.tiny_data import TinyVideos, write_prediction_data, write_tiny_videos
from tests.web_server import Web

ROOT = Path(__file__).parents[1]
# Seconds after which the stacks of a module that hangs are printed. Pytest's own watch starts a
# thread for each test, which takes longer than many of them.
HANGS = 1800
STDERR = os.dup(2)  # pytest replaces it

# Commands in the background of a shell ignore ctrl-C, and so would these tests and what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Servers of tests are here: no proxy stands between, and libraries may ask them.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1,::1"
for offline in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ.pop(offline, None)


@contextmanager
def kept_instances() -> Iterator[None]:
    """Take back the scopes, loggers, hubs, visualizers and loaders that runs leave behind.

    MMEngine names a run by the second. Another of that name would write to the first one's files.
    It also sets how processes are started, and the tools set a rank.
    """
    from mmengine.runner import CheckpointLoader
    from mmengine.utils import ManagerMixin

    def kinds(kind: type) -> Iterator[type]:
        yield kind
        for one in kind.__subclasses__():
            yield from kinds(one)

    before = {kind: dict(kind._instance_dict) for kind in kinds(ManagerMixin)}
    schemes = CheckpointLoader._schemes.copy()
    contexts, rank = multiprocessing.context._default_context, os.environ.get("LOCAL_RANK")
    start_method = contexts._actual_context
    try:
        yield
    finally:
        contexts._actual_context = start_method
        os.environ.pop("LOCAL_RANK", None)
        if rank is not None:
            os.environ["LOCAL_RANK"] = rank
        CheckpointLoader._schemes = schemes
        for kind in kinds(ManagerMixin):
            kind._instance_dict.clear()
            kind._instance_dict.update(before.get(kind, {}))


@pytest.fixture(autouse=True, scope="module")
def clean_module() -> Iterator[None]:
    """Take back what fixtures of a whole module leave behind."""
    gc.collect()
    gc.freeze()
    faulthandler.dump_traceback_later(HANGS, file=STDERR)
    with kept_instances():
        yield
    faulthandler.cancel_dump_traceback_later()
    end_processes()


def end_processes() -> None:
    """End workers of loaders that nobody has let go: ``run_tool`` would end this process, too."""
    for process in multiprocessing.active_children():
        process.kill()
        process.join()


@pytest.fixture(autouse=True)
def instances_of_a_test() -> Iterator[None]:
    """See ``kept_instances``."""
    with kept_instances():
        yield


@pytest.fixture(autouse=True)
def handlers_of_a_test() -> Iterator[None]:
    """No handler of SIGTERM is left: processes that are forked would have it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a process of xdist end at once: Python takes seconds to free what the system frees."""
    if hasattr(session.config, "workerinput"):
        atexit.register(end_at_once)


def end_at_once() -> None:
    """End this process, after what ``multiprocessing`` does then, as to remove its folders."""
    util._exit_function()
    os._exit(0)


def pytest_collection() -> None:
    """Import what most tests need, but not in the process that only hands them out."""
    from tests import prepared  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest; xdist keeps this order with ``--no-loadscope-reorder``."""
    items.sort(key=longest_first)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of what ``clean_module`` kept: libraries report it as leaks, where somebody reads."""
    if not hasattr(config, "workerinput"):
        gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copies of remote files are made in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMVIDFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny_videos(tmp_path_factory: pytest.TempPathFactory) -> TinyVideos:
    """Videos of 24 frames of 64 x 32 pixels: noise over a colour that tells the class."""
    return write_tiny_videos(tmp_path_factory.mktemp("tiny_videos"))


@pytest.fixture(scope="session")
def prediction_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny data of anticipation and early recognition, in a working folder for their configs."""
    here = tmp_path_factory.mktemp("prediction_data")
    write_prediction_data(here / "data")
    return here


def load_tool(name: str) -> ModuleType:
    """Import a command, as ``data.list``, one of a clone, or a script of ``tools/``."""
    if name.startswith(("lab.", "benchmarks.")):
        return importlib.import_module(name)
    if not (ROOT / "tools" / f"{name}.py").is_file() or name in ("train", "test"):
        return importlib.import_module(f"mmvidformer.cli.{name}")
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
    import torch

    return lambda path: torch.load(path, weights_only=True)["state_dict"]


@pytest.fixture(scope="session")
def train() -> Callable:
    """The ``main`` of ``mmvidformer train``; it runs in this process."""
    return kept_instances()(load_tool("train").main)


@pytest.fixture(scope="session")
def test() -> Callable:
    """The ``main`` of ``mmvidformer test``; it runs in this process."""
    return kept_instances()(load_tool("test").main)


@pytest.fixture(scope="session")
def load() -> Callable:
    """Import a command or a tool as a module."""
    return load_tool


@pytest.fixture(scope="session")
def main_of() -> Callable:
    """The ``main`` of a command or a tool; it runs in this process."""
    return lambda name: load_tool(name).main


@pytest.fixture(scope="session")
def run() -> Callable:
    """Start a command with one thread a process and no GPU; gives the Popen object."""

    inherited = os.environ.get("PYTHONPATH", "")

    def start(*command: object, **variables: object) -> subprocess.Popen:
        env = dict(
            os.environ,
            PYTHON=sys.executable,
            PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests" / "cli"), inherited]),
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


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server on this machine, which is the HuggingFace hub too; with caches of its own."""
    from huggingface_hub import constants, file_download

    server = Web()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    for name, value in {
        "ENDPOINT": server.url(""),
        "HUGGINGFACE_CO_URL_TEMPLATE": server.url("/{repo_id}/resolve/{revision}/{filename}"),
        "HF_HUB_CACHE": str(tmp_path / "hub"),
    }.items():
        monkeypatch.setattr(constants, name, value)
        monkeypatch.setattr(file_download, name, value, raising=False)  # a copy before 0.34
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def s3() -> Iterator[Proxy]:
    """An S3 server with a bucket."""
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    pytest.importorskip("moto", reason="moto, an S3 server, is not installed")
    pytest.importorskip("flask_cors", reason="moto's server needs flask and flask_cors")
    with s3_server() as proxy:
        yield proxy


@pytest.fixture
def storage(s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The S3 server without faults, which this process finds by fsspec's variables."""
    from mmvidformer.storage import files, lease

    monkeypatch.setenv("MMVIDFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    monkeypatch.setattr(files, "PAUSES", (0.01, 0.02))
    monkeypatch.setattr(lease, "SETTLING", 0.01)
    files._file_system.cache_clear()
    s3.reset()
    yield s3
    s3.reset()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """Replace the table of published checkpoints."""
    from mmvidformer.checkpoints import published

    def write(*rows: dict) -> None:
        (tmp_path / "published.yml").write_text(yaml.safe_dump(list(rows)))
        published.rows.cache_clear()

    monkeypatch.setattr(published, "TABLE", tmp_path / "published.yml")
    yield write
    published.rows.cache_clear()
