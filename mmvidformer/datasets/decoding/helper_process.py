"""A process for calls that may hang or crash."""

import copyreg
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from ctypes import CDLL
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

HAS_FORK = hasattr(os, "fork")
# Signals by which native code crashes; a process that ends by another one was killed from outside.
CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP")
# A call that computes for a smaller share of the time before its limit is waiting.
BUSY_SHARE = 0.1
_PR_SET_PDEATHSIG = 1
_SERVING_FAILED = 70


class CallFailed(Exception):
    """The call hung or crashed its process."""


class CallInterrupted(Exception):
    """The call did not end for a reason outside of it: its process was killed, or kept waiting."""


class HelperProcess:
    """Calls a function in a forked copy of this process, which is killed when it hangs.

    Native code that crashes, or hangs with the GIL, takes its process with it. If that is a
    dataloader worker, the run ends. So workers call through a helper, which they fork, since
    ``multiprocessing`` refuses to start processes there. It starts with the first call, and ends
    with this process: on Linux even while it hangs, elsewhere when it next waits for a call.

    Args:
        function: Function of one argument. It runs on one thread.
        time_limit: Seconds for one call.
    """

    def __init__(self, function: Callable[[object], object], time_limit: float) -> None:
        self.function, self.time_limit = function, time_limit
        self._owner = 0  # process that the helper answers; 0 if there is none

    def __getstate__(self) -> dict:
        return {"function": self.function, "time_limit": self.time_limit, "_owner": 0}

    def __call__(self, argument: object) -> object:
        """Call the function.

        Raises:
            CallFailed: If it takes longer than the time limit, or crashes.
            CallInterrupted: If the helper is killed from outside, or waits until the time limit, as
                when the storage stalls. Only Linux tells this from a hang.
            RuntimeError: If the function raises. The message has the helper's traceback.
        """
        if self._owner != os.getpid():  # not started, or only in the process that forked this one
            self._start()
        half, before = self.time_limit / 2, 0.0
        try:
            self._socket.sendall(pickle.dumps(argument, protocol=5))
            if not wait([self._socket], half):
                before = _busy_seconds(self._pid)
            # The answer comes from a fork of this process, so that its pickle is safe.
            returned, answer = pickle.load(self._answers)  # nosec B301
        except TimeoutError:
            busy = _busy_seconds(self._pid) - before
            self.stop()
            if busy < BUSY_SHARE * half:
                raise CallInterrupted(
                    f"no answer within {self.time_limit:g} s, and it computed for {busy:.1f} s of "
                    f"the last {half:g} s: the storage stalled, or the decoder is deadlocked"
                ) from None
            raise CallFailed(f"took longer than {self.time_limit:g} s and was killed") from None
        except (EOFError, OSError, pickle.UnpicklingError):
            raise _ended(self.stop()) from None
        except BaseException:  # such as Ctrl-C: the next call must not get this answer
            self.stop()
            raise
        if not returned:
            raise RuntimeError(f"in the helper process:\n{answer}")
        return answer

    def stop(self) -> int | None:
        """Kill the helper, if it runs, and return its exit code, -N if signal N ended it."""
        started, self._owner = self._owner == os.getpid(), 0
        return self._end() if started else None

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._owner = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._socket.close()
            _serve(theirs, self.function, self._owner)
        theirs.close()
        self._socket.settimeout(self.time_limit / 2)
        self._answers = self._socket.makefile("rb")
        # Unlike atexit this runs at the end of dataloader workers too, and not in forks.
        args = self._pid, self._answers, self._socket
        self._end = Finalize(self, _kill, args, exitpriority=1)


def _ended(code: int | None) -> Exception:
    """The exception for a helper that ended before it answered."""
    if code == _SERVING_FAILED:
        return RuntimeError("the helper process failed; its traceback is printed above")
    if code is None or code >= 0:
        return CallFailed(f"ended its process with exit code {code}")
    name = signal.Signals(-code).name
    if name in CRASHES:
        return CallFailed(f"crashed its process ({name})")
    hint = "; the system may be out of memory" if name == "SIGKILL" else ""
    return CallInterrupted(f"its process was killed from outside ({name}{hint})")


def _kill(pid: int, *files: object) -> int:
    os.kill(pid, signal.SIGKILL)  # a helper that has ended keeps its own exit code
    for file in files:
        file.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _busy_seconds(pid: int) -> float:
    """How long a process has run or waited for a core; the time of day on other systems."""
    spent: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # of a thread that has just ended
            spent += map(int, file.read_text().split()[:2])
    return sum(spent) / 1e9 if spent else time.monotonic()


def _reduce(x: Tensor) -> tuple:
    """Pickle a tensor by its bytes, which PyTorch's own way copies several times."""
    return _to_tensor, (x.detach().reshape(-1).view(torch.uint8).numpy(), x.dtype, x.shape)


def _to_tensor(content: np.ndarray, dtype: torch.dtype, shape: torch.Size) -> Tensor:
    return torch.from_numpy(content).view(dtype).reshape(shape)


def _serve(connection: socket.socket, function: Callable, owner: int) -> None:
    """Answer calls until the owner ends; never returns."""
    code = _SERVING_FAILED
    try:
        _prepare(owner)
        calls, answers = connection.makefile("rb"), connection.makefile("wb")
        while True:
            argument = pickle.load(calls)  # nosec B301
            try:
                answer = True, function(argument)
            except Exception:
                answer = False, traceback.format_exc()
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
    except (EOFError, ConnectionError):
        code = 0  # the owner has ended
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # without the exit handlers and buffers of the owner


def _prepare(owner: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # sent to all processes; the owner acts on them
    for name in CRASHES:
        signal.signal(getattr(signal, name), signal.SIG_DFL)  # dataloader workers handle some
    if sys.platform == "linux":
        CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != owner:
            raise EOFError
    torch.set_num_threads(1)  # thread pools do not survive a fork
    cv2.setNumThreads(0)
    copyreg.pickle(Tensor, _reduce)
