import atexit
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util
from types import ModuleType
from typing import NoReturn

from mmvidformer.errors import UserError, is_of_system

DEBUG = "MMVIDFORMER_DEBUG"
# Set by the launcher to the number of its process. The processes that it starts end with
# GONE_STATUS, the highest, in place of this message.
LAUNCHED, GONE_STATUS = "MMVIDFORMER_LAUNCHED", 255
READER_GONE_STATUS = 141  # 128 + SIGPIPE, which Windows lacks
GONE = "another process is gone, or did not answer in time"
LOST_WORKER = "a worker process hangs or was killed (its decoder, storage or memory)"
PR_SET_PDEATHSIG = 1  # of Linux's prctl
# Modules that raise an error in the main process when a worker is lost.
WORKER_MODULES = ("multiprocessing.", "torch.utils.data.")
OF_WORKER = "\nOriginal Traceback (most recent call last):\n"  # in the text of its error


def run_tool(main: Callable[[], int | None]) -> int:
    """Run the ``main`` of a tool; print a user's mistake as ``error: ...`` without traceback.

    A ``UserError`` is one, and so are errors of the system that name a file, full disks, and lost
    processes and workers. The rest keep their traceback, and all with ``MMVIDFORMER_DEBUG``.
    Returns the exit status: that of ``main``, 2 for a mistake, 1 for others. A process of a group
    ends here with that status.
    """
    end_with_launcher()
    # On a full disk each line of a log file would be a traceback.
    logging.raiseExceptions = DEBUG in os.environ
    try:
        try:
            status = main() or 0
        except SystemExit:
            print(end="", flush=True)
            raise
        print(end="", flush=True)  # what is left in its buffer: Python would fail to, at exit
        if group := joined_group():
            leave_group(group, status)
        return status
    except SystemExit as end:
        if end.code and has_processes():
            end_process(end.code if isinstance(end.code, int) else 1)
        raise
    except KeyboardInterrupt:
        group = joined_group()
        if group is None or group.get_rank() == 0:
            print("interrupted", file=sys.stderr)
        end_process(130)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and not lost_part(error):
            # Who reads the output, such as ``head``, has enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            end_process(READER_GONE_STATUS)
        if LAUNCHED in os.environ and DEBUG not in os.environ and lost_part(error) == GONE:
            end_process(GONE_STATUS)
        mistake = is_mistake(error)
        if mistake:
            print(f"error: {describe(error)}", file=sys.stderr)
        elif has_processes():
            traceback.print_exc()
        else:
            raise
        status = 2 if mistake else 1
        if has_processes():
            end_process(status)
        return status


def has_processes() -> bool:
    """Whether this process has dataloader workers, or belongs to a group of processes."""
    return bool(multiprocessing.active_children()) or joined_group() is not None


def joined_group() -> ModuleType | None:
    """Return ``torch.distributed`` if this process belongs to a group.

    It is imported by whoever joins one: commands that need no PyTorch are not to wait for it.
    """
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed and distributed.is_initialized() else None


def leave_group(distributed: ModuleType, status: int) -> NoReturn:
    """Leave the group of processes, and end this process while the interpreter is intact.

    A thread of gloo may hold a tensor for a moment after its collective has ended. It needs the
    interpreter to release it, and aborts the process if that is gone (pytorch/pytorch#190489).
    Leaving does not end these threads, since the wrapped model refers to the group, too. In PyTorch
    2.6 the end of a group waits for them, and they for the interpreter.
    """
    _group = distributed.group.WORLD  # so that it does not end here
    distributed.destroy_process_group()
    # What Python does at exit before it takes down the interpreter.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def end_process(status: int) -> NoReturn:
    """Kill the dataloader workers and end this process, without waiting for anything."""
    for child in multiprocessing.active_children():
        child.kill()
    # What Python does at exit before it waits: semaphores are removed, or it warns that they leak.
    util._run_finalizers(0)
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def end_with_launcher() -> None:
    """Let the system stop this process with SIGTERM when its launcher dies, if it has one (Linux).

    The launcher passes on other signals, but it cannot pass on SIGKILL.
    """
    # Commands that a process of a launcher starts have its environment, too.
    is_launched = os.environ.get(LAUNCHED) == str(os.getppid())
    if is_launched and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def is_mistake(error: Exception) -> bool:
    """Whether an error is a user's mistake, or one of the system: of a file, or a full disk."""
    return DEBUG not in os.environ and bool(
        isinstance(error, UserError) or is_of_system(error) or lost_part(error)
    )


def lost_part(error: Exception) -> str:
    """Return what hangs or has died, if an error says so; else an empty string."""
    # PyTorch has a class for errors of NCCL; those of gloo are known by their text alone.
    of_group = getattr(sys.modules.get("torch.distributed"), "DistError", ())
    if isinstance(error, of_group) or "gloo/transport" in str(error):
        return GONE
    is_lost = isinstance(error, EOFError | ConnectionError) or str(error).startswith("DataLoader ")
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if is_lost and frames and frames[-1].f_globals["__name__"].startswith(WORKER_MODULES):
        return LOST_WORKER
    return ""


def describe(error: Exception) -> str:
    """Message of an error in words."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename or repr('')}: {error.strerror}"
    text = str(error)
    if lost := lost_part(error):
        reason = (text.splitlines() or [type(error).__name__])[0]
        text = f"{lost}: {reason.partition('. This')[0]}"  # gloo's long advice
    elif OF_WORKER in text:  # raised again by the dataloader
        text = text.strip().splitlines()[-1].partition(": ")[2]
    return text if " " in text else f"{type(error).__name__}: {text}"
