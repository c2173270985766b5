"""Calls in a process that may hang, crash or be killed."""

import gc
import os
import re
import signal
import sys
import time

import numpy as np
import pytest
import torch

from mmvidformer.datasets.decoding import helper_process
from mmvidformer.datasets.decoding.helper_process import (
    HAS_FORK,
    CallFailed,
    CallInterrupted,
    HelperProcess,
)

pytestmark = pytest.mark.skipif(not HAS_FORK, reason="needs fork")


def compute_forever():
    re.match("(a+)+$", 99 * "a" + "b")  # holds the GIL, as decord does when it hangs


def do(what):
    """Do what the argument says, in the helper."""
    if isinstance(what, signal.Signals):
        os.kill(os.getpid(), what)
    actions = {
        "hang": compute_forever,
        "wait": lambda: time.sleep(60),
        "exit": lambda: os._exit(3),
        "raise": lambda: 1 / 0,
        "lambda": lambda: lambda: None,
        "quit": lambda: sys.exit(0),
        "pid": os.getpid,
    }
    return actions[what]()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6, dtype=torch.uint8).view(2, 3),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.tensor(7),
        torch.empty(0, 3),
        torch.arange(6).view(2, 3).t(),
    ],
    ids=lambda tensor: f"{tensor.dtype}{list(tensor.shape)}",
)
def test_tensors_and_arrays_come_back_as_they_are(tensor):
    sent = {"inputs": tensor, "names": ["a"], "array": np.arange(3.0)}
    got = HelperProcess(lambda _: sent, 20)(None)
    assert got["inputs"].dtype == tensor.dtype and torch.equal(got["inputs"], tensor)
    assert got["names"] == ["a"] and got["array"].tolist() == [0, 1, 2]
    got["inputs"] += got["inputs"]  # own memory
    got["array"] += 1


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("hang", CallFailed, r"took longer than 1 s and was killed"),
        ("exit", CallFailed, r"ended its process with exit code 3"),
        (signal.SIGSEGV, CallFailed, r"crashed its process \(SIGSEGV\)"),
        (signal.SIGABRT, CallFailed, r"crashed its process \(SIGABRT\)"),
        ("wait", CallInterrupted, r"no answer within 1 s, .*: the storage stalled, or"),
        (signal.SIGKILL, CallInterrupted, r"killed from outside \(SIGKILL; .* out of memory\)"),
        (signal.SIGHUP, CallInterrupted, r"killed from outside \(SIGHUP\)"),
        ("raise", RuntimeError, r"in the helper process:(?s:.*)ZeroDivisionError"),
    ],
)
def test_faults_of_the_call_differ_from_those_of_the_system(what, error, message):
    helper = HelperProcess(do, 1)
    with pytest.raises(error, match=message):
        helper(what)
    assert helper("pid") not in (0, os.getpid())  # the next call is answered


def test_a_stall_counts_as_a_hang_on_other_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(helper_process, "Path", lambda proc: tmp_path)
    with pytest.raises(CallFailed, match="took longer than 0.5 s"):
        HelperProcess(do, 0.5)("wait")


@pytest.mark.parametrize(("what", "error"), [("lambda", "pickle"), ("quit", "SystemExit")])
def test_an_error_of_the_helper_itself_is_reported(capfd, what, error):
    """The answer cannot be sent, or the function ends the process: no fault of a video."""
    helper = HelperProcess(do, 20)
    with pytest.raises(RuntimeError, match="the helper process failed; its traceback is printed"):
        helper(what)
    printed = capfd.readouterr().err
    assert "Traceback" in printed and error in printed


def test_an_interrupted_call_leaves_no_answer_behind(monkeypatch):
    def interrupt(stream):
        raise KeyboardInterrupt

    helper = HelperProcess(lambda number: number, 20)
    assert helper(1) == 1
    with monkeypatch.context() as patch:
        patch.setattr(helper_process.pickle, "load", interrupt)
        with pytest.raises(KeyboardInterrupt):
            helper(2)
    assert helper(3) == 3


def test_the_helper_is_kept_until_it_is_stopped_or_unused():
    helper = HelperProcess(do, 20)
    first = helper("pid")
    assert helper("pid") == first
    assert helper.stop() == -signal.SIGKILL and helper.stop() is None
    second = helper("pid")
    assert second != first
    del helper
    gc.collect()
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_fork_has_a_helper_of_its_own():
    helper = HelperProcess(do, 20)
    ours = helper("pid")
    child = os.fork()
    if child == 0:
        os._exit(int(helper("pid") == ours))
    assert os.waitpid(child, 0)[1] == 0
    assert helper("pid") == ours
