"""Mistakes on one line, and arguments that tools share."""

import errno
import importlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch.utils.data import DataLoader, Dataset

from lab.papers.kernels.performer import orthogonal_gaussian
from mmvidformer import get_config
from mmvidformer.data.lists import read_list
from mmvidformer.engine import errors
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.launch import build_runner
from mmvidformer.engine.loading import warn_of_pixels
from mmvidformer.engine.training_guard import LossNotFinite
from mmvidformer.errors import UserError
from mmvidformer.layers.drop import DropPath
from mmvidformer.video.capture import Capture


def in_loop(main: Callable) -> Callable:
    """A ``main`` that is called while a loop of MMEngine runs."""
    loop = SimpleNamespace(
        _epoch=0, _max_epochs=1, stop_training=False, runner=None, run_epoch=main
    )
    loop.runner = SimpleNamespace(call_hook=lambda name: None)
    return lambda: EpochBasedTrainLoop.run(loop)


def fail(error: Exception) -> Callable:
    """A ``main`` that raises an error."""

    def main():
        raise error

    return main


class ForUser(UserError, RuntimeError):
    """Raised on purpose while a runner runs."""


class Bad(Dataset):
    """Raises an error in a dataloader worker."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        raise ForUser("3 of 4 samples are bad")


class NoStorage(Bad):
    """Its storage is gone."""

    def __getitem__(self, index: int) -> int:
        raise ConnectionError("the storage is gone")


class Stuck(Bad):
    """Its decoder hangs."""

    def __getitem__(self, index: int) -> int:
        time.sleep(60)
        return index


class Killed(Bad):
    """Its decoder crashes."""

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index


MISTAKES = {
    "a.txt: No such file or directory": partial(read_list, Path("a.txt"), " "),
    "no shipped config named 'a'; ": partial(get_config, "a"),
    "the rate of DropPath must be in [0, 1), got 2": partial(DropPath, 2),
    "camera 77 does not exist or is in use": partial(Capture, 77),
    "the loss is not finite": fail(LossNotFinite("the loss is not finite")),
    "bad data": fail(ForUser("bad data")),
    "'': No such file or directory": partial(open, ""),
    "[Errno 28] No space left on device": fail(OSError(errno.ENOSPC, "No space left on device")),
    "epoch_1.pth: No space left on device": fail(
        OSError(errno.ENOSPC, "No space left on device", "epoch_1.pth")
    ),
}


@pytest.mark.parametrize("printed", MISTAKES)
def test_mistakes_of_a_user_end_in_one_line(printed, capsys, monkeypatch):
    main = MISTAKES[printed]
    for moment in (main, in_loop(main)):
        assert run_tool(moment) == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"error: {printed}") and err.count("\n") == 1 and out == ""
    message = re.escape(printed.split(": ")[-1])
    monkeypatch.setenv("MMVIDFORMER_DEBUG", "1")
    with pytest.raises(Exception, match=message):
        run_tool(main)


class Faulty(Hook):
    """A hook of the user's own."""

    def __init__(self, fail: Callable) -> None:
        self.fail = fail

    def before_run(self, runner: Runner) -> None:
        self.fail(runner)


def wrong_mean() -> None:
    """Compare three pixel statistics with four, deep inside of the package."""
    cfg = Config(dict(model=dict(data_preprocessor=dict(mean=[1.0] * 4))))
    warn_of_pixels(cfg, dict(meta=dict(mean=[1.0] * 3)), "a.pth")


FAULTS = {
    "my_own_key": lambda runner: {}["my_own_key"],
    "a_key_of_the_config": lambda runner: runner.cfg["a_key_of_the_config"],
    "x must be 1": lambda runner: DropPath(rate=float("x must be 1")),
    "No module named 'mine'": lambda runner: importlib.import_module("mine"),
}


@pytest.mark.parametrize("message", FAULTS)
def test_errors_in_code_of_the_user_keep_their_traceback(message, toy, tmp_path, monkeypatch):
    """Whoever raises them, also outside of the loop."""
    monkeypatch.chdir(tmp_path)
    runner = toy(hooks=[Faulty(FAULTS[message])])
    with pytest.raises((KeyError, ValueError, OSError, ImportError), match=message):
        run_tool(runner.train)


@pytest.mark.parametrize(
    ("main", "message"),
    [
        (wrong_mean, r"operands could not be broadcast together with shapes \(3,\) \(4,\)"),
        (partial(orthogonal_gaussian, 4, -1), "negative dimension"),
    ],
)
def test_faults_of_the_package_keep_their_traceback(main, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        run_tool(main)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(model=dict(backbone=dict(clip_len="x"))), "TypeError: "),
        (dict(model=dict(backbone=dict(type="ViViTT"))), "KeyError: ViViTT is not in the "),
        (dict(train_dataloader=dict(dataset=dict(starts=1))), "TypeError: .*'starts'"),
        (dict(optim_wrapper=dict(type="OptimWrap")), "KeyError: OptimWrap is not in the "),
        (dict(param_scheduler=[dict(type="mmengine.StepLR")]), "TypeError: .*'step_size'"),
    ],
)
def test_wrong_values_of_a_config_end_in_one_line(change, said, config, capsys, monkeypatch):
    """Whatever the constructor raises, whenever MMEngine builds it."""

    def main() -> None:
        build_runner(config(launcher="none", **change)).train()

    assert run_tool(main) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert re.match(f"error: (.*py|the config) cannot be built: {said}", err)
    assert err.endswith(" (MMVIDFORMER_DEBUG=1 shows the traceback)")
    monkeypatch.setenv("MMVIDFORMER_DEBUG", "1")
    with pytest.raises(UserError) as caught:
        run_tool(main)
    assert not isinstance(caught.value.__cause__, UserError)


def test_an_optimizer_that_there_is_not(config, capsys):
    """MMEngine would say that None cannot be called."""
    change = dict(optim_wrapper=dict(optimizer=dict(type="AdmaW")))
    assert run_tool(lambda: build_runner(config(launcher="none", **change)).train()) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == "error: no optimizer named 'AdmaW'; did you mean AdamW?"


@pytest.mark.parametrize(
    ("last", "told", "status"),
    [
        ("def main(): print('a\\n' * 99999)", b"", 141),
        ("def main(): print('a')", b"", 141),  # in a buffer until the end
        ("def main(): print('a'); raise KeyboardInterrupt", b"interrupted\n", 130),
    ],
)
def test_output_that_nobody_reads_ends_the_tool_without_a_word(last, told, status):
    code = f"""
import sys
from mmvidformer.engine.errors import run_tool
{last}
sys.stdin.read()  # until the reader is gone
sys.exit(run_tool(main))
"""
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}
    streams = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], env=buffered, **streams) as process:
        process.stdout.close()
        process.stdin.close()
        assert (process.stderr.read(), process.wait(600)) == (told, status)
    assert errors.READER_GONE_STATUS == 128 + signal.SIGPIPE


@pytest.fixture
def with_workers(monkeypatch):
    """Tools end the process at once if it has workers."""
    monkeypatch.setattr(errors, "has_processes", lambda: False)
    yield
    for worker in multiprocessing.active_children():
        worker.kill()
        worker.join()


def test_an_error_of_a_dataloader_worker_is_its_last_line(capsys, with_workers):
    assert run_tool(in_loop(lambda: next(iter(DataLoader(Bad(), num_workers=1))))) == 2
    assert capsys.readouterr().err == "error: 3 of 4 samples are bad\n"


@pytest.mark.parametrize(
    ("dataset", "timeout", "message"),
    [
        (Stuck(), 1, "DataLoader timed out after 1 seconds"),
        (Killed(), 600, r"DataLoader worker \(pid.* (exited unexpectedly|is killed by signal).*"),
    ],
    ids=["hangs", "is killed"],
)
def test_a_lost_worker_is_told_in_one_line(
    dataset, timeout, message, capsys, monkeypatch, with_workers
):
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.2)
    loader = DataLoader(dataset, num_workers=1, timeout=timeout)
    assert run_tool(in_loop(lambda: next(iter(loader)))) == 2
    lost = "error: a worker process hangs or was killed (its decoder, storage or memory): "
    assert re.fullmatch(re.escape(lost) + message + "\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    "main",
    [
        lambda: next(iter(DataLoader(NoStorage(), num_workers=1))),
        fail(RuntimeError("igloo.mp4 is not known")),
        fail(RuntimeError("DataLoader timed out after 5 seconds")),
        lambda: next(iter(DataLoader([torch.zeros(1), torch.zeros(2)], batch_size=2))),
        fail(FloatingPointError("the loss is not finite")),
    ],
)
def test_errors_of_storage_models_and_batches_are_no_lost_processes(main, with_workers):
    """Whatever their text."""
    with pytest.raises((ConnectionError, RuntimeError, FloatingPointError)):
        run_tool(in_loop(main))


def test_other_errors_keep_their_traceback():
    with pytest.raises(AttributeError):
        run_tool(fail(AttributeError("a fault of the tool")))


@pytest.mark.parametrize(("result", "status"), [(None, 0), (0, 0), (3, 3)])
def test_the_exit_status_is_that_of_main(result, status):
    assert run_tool(lambda: result) == status


def test_a_failed_run_kills_its_workers_and_leaks_no_semaphores():
    """Python would warn of them after the message."""
    code = """
import multiprocessing, time
from mmvidformer.engine.errors import run_tool

def main():
    context = multiprocessing.get_context("forkserver")
    event, queue = context.Event(), context.Queue()
    context.Process(target=time.sleep, args=(100,)).start()
    open("missing.txt")

if __name__ == "__main__":
    run_tool(main)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (2, "error: missing.txt: No such file or directory\n")
