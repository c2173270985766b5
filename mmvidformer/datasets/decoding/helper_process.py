"""A process that does what may hang or crash, and can be killed."""

import io
import mmap
import os
import pickle
import signal
import sys
import traceback
import weakref
from collections.abc import Callable
from ctypes import CDLL
from multiprocessing.connection import Connection, Pipe

import cv2
import torch

HAS_FORK = hasattr(os, "fork")
# Memory that both processes see, for the numbers of an answer; larger answers go through the pipe.
# Pages that nothing was written to take no memory.
SHARED_BYTES = 2**28
_PR_SET_PDEATHSIG = 1


class HelperDied(Exception):
    """The helper ended, or was killed, before it answered; the message says how."""


class HelperProcess:
    """A forked copy of this process that answers one request at a time.

    What runs in native code (a decoder that loops forever and keeps Python's lock, one that
    crashes) can be stopped only together with its process. A data loader's worker whose own
    process died would take the run down, so the worker has a helper. Forking needs no pickle of
    ``answer``, and workers of PyTorch's loader, which may not start processes through
    ``multiprocessing``, may fork.

    The helper ends with this process: when its pipe closes, and on Linux also while it hangs.

    Args:
        answer: Function from a request to an answer. It runs in the helper, on one thread.

    Raises:
        OSError: If the system cannot fork.
    """

    def __init__(self, answer: Callable[[object], object]) -> None:
        if not HAS_FORK:
            raise OSError(f"a helper process needs os.fork, which {sys.platform} lacks")
        self.connection, theirs = Pipe()
        self.shared = mmap.mmap(-1, SHARED_BYTES)
        self.owner = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self.connection.close()
            _serve(theirs, self.shared, answer, self.owner)
        theirs.close()
        self._end = weakref.finalize(self, _kill, self.pid, self.owner)

    def submit(self, request: object) -> None:
        """Send a request.

        Raises:
            HelperDied: If the helper is gone.
        """
        try:
            self.connection.send(request)
        except OSError as error:
            raise HelperDied(self.stop()) from error

    def receive(self, timeout: float | None = None) -> object:
        """Wait for the answer.

        Args:
            timeout: Seconds to wait before the helper is killed; None for ever.

        Raises:
            HelperDied: If time is up, or the helper crashed. The helper is of no use after.
            RuntimeError: If ``answer`` raised; with the helper's traceback.
        """
        if not self.connection.poll(timeout):
            self.stop()
            raise HelperDied(f"took longer than {timeout:g} s and was killed")
        try:
            failed, answer = _receive(self.connection, self.shared)
        except (EOFError, OSError) as error:
            raise HelperDied(self.stop()) from error
        if failed:
            raise RuntimeError(f"in the helper process:\n{answer}")
        return answer

    def stop(self) -> str:
        """Kill the helper; says how it ended."""
        ended = self._end()
        self.connection.close()
        return ended or "was stopped"


def _kill(pid: int, owner: int) -> str | None:
    if os.getpid() != owner:  # a fork of the owner
        return None
    # A helper that crashed keeps its own exit status.
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        return f"the process that read it was ended by {name}"
    return f"the process that read it ended with exit code {os.waitstatus_to_exitcode(status)}"


def _serve(
    connection: Connection, shared: mmap.mmap, answer: Callable[[object], object], owner: int
) -> None:
    """Life of a helper; never returns."""
    try:
        _prepare(owner)
        while True:
            request = connection.recv()
            try:
                message, buffers = _packed((False, answer(request)))
            except Exception:  # anything that the code of others raises is told to the owner
                message, buffers = _packed((True, traceback.format_exc()))
            sizes = [buffer.nbytes for buffer in buffers]
            fits = sum(sizes) <= len(shared)
            place = 0
            if fits:
                for buffer in buffers:
                    shared[place : place + buffer.nbytes] = buffer
                    place += buffer.nbytes
            connection.send((message, sizes, fits))
            if not fits:
                for buffer in buffers:
                    connection.send_bytes(buffer)
    except (EOFError, OSError):
        pass  # the owner is gone
    finally:
        os._exit(0)  # no handlers, buffers or threads of the owner


def _prepare(owner: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner decides what an interrupt means
    for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE):
        signal.signal(number, signal.SIG_DFL)  # handlers of a loader's worker and of the run
    if sys.platform == "linux":
        CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != owner:
            os._exit(0)
    torch.set_num_threads(1)  # pools of threads don't survive a fork
    cv2.setNumThreads(0)


class _Pickler(pickle.Pickler):
    """Leaves the numbers of arrays and tensors out of the pickle, to be sent without a copy."""

    def reducer_override(self, value: object) -> object:
        if type(value) is torch.Tensor and value.device.type == "cpu" and not value.requires_grad:
            try:
                return torch.from_numpy, (value.numpy(),)
            except TypeError:  # a type that numpy lacks
                pass
        return NotImplemented


def _packed(value: object) -> tuple[bytes, list[memoryview]]:
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), [buffer.raw() for buffer in buffers]


def _receive(connection: Connection, shared: mmap.mmap) -> tuple[bool, object]:
    message, sizes, fits = connection.recv()
    buffers, place = [], 0
    with memoryview(shared) as view:
        for size in sizes:
            # An own copy: the memory is written over by the next answer.
            content = view[place : place + size] if fits else connection.recv_bytes()
            buffers.append(bytearray(content))
            place += size
    # What is unpickled here comes from a fork of this very process.
    return pickle.loads(message, buffers=buffers)
