"""How the tools end: mistakes on one line, and no process left behind."""

import ctypes
import errno
import multiprocessing
import os
import pickle
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from mmengine.device import get_device
from mmengine.dist import is_main_process
from torch import distributed

# What mistakes in arguments, configs and files raise before a runner runs.
MISTAKES = (OSError, ValueError, KeyError, ImportError, NotImplementedError, pickle.PickleError)
DEBUG = "MMVIDFORMER_DEBUG"
# Code that is not the user's: this package with its tools, Python's library, installed packages.
_LIBRARIES = (
    str(Path(__file__).parents[2]),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    "<frozen",
)


def run_tool(main: Callable[[], int | None]) -> int:
    """Run the ``main`` of a tool; print a user's mistake as ``error: ...`` without traceback.

    Before a runner runs, mistakes are the errors in ``MISTAKES``, and all errors of a part that is
    built from a config. Then they are ``FloatingPointError``, a full disk, lost processes and
    workers, and errors with ``for_user``. Errors that the user's own modules raise keep their
    traceback, as do all others, and all with ``MMVIDFORMER_DEBUG`` set.

    A run that fails ends its process at once (``end_process``), whatever its dataloader workers
    and the other processes do.

    Returns:
        The exit status: that of ``main``, 2 for a mistake, 1 for one while a runner runs.
    """
    try:
        keep_freed_memory()
        return main() or 0
    except SystemExit as end:
        if end.code and has_processes():
            end_process(end.code if isinstance(end.code, int) else 1)
        raise
    except KeyboardInterrupt:
        if is_main_process():
            print("interrupted", file=sys.stderr)
        end_process(130)
    except Exception as error:
        running = is_running(error)
        known = is_mistake(error, running)
        if known:
            print(f"error: {describe(error)}", file=sys.stderr)
        elif has_processes():
            traceback.print_exc()
        if has_processes():
            end_process(1 if running or not known else 2)
        if not known:
            raise
        return 1 if running else 2


def has_processes() -> bool:
    """Whether this process has dataloader workers, or belongs to a group of processes."""
    return bool(multiprocessing.active_children()) or distributed.is_initialized()


def end_process(status: int) -> NoReturn:
    """Kill the dataloader workers and end this process, without waiting for anything.

    Python would wait at exit: for workers, which may hang, and for communication with processes
    that may be gone.
    """
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def keep_freed_memory() -> None:
    """Let glibc reuse the memory of freed tensors instead of returning it to the system.

    On a CPU each pass would map and clear the same pages again. Only without an accelerator, on a
    machine with at least 8 GiB, and if no ``MALLOC_TRIM_THRESHOLD_`` is set.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is None or get_device() != "cpu" or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= 8 << 30:
        set_option(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        set_option(-3, 1 << 30)  # M_MMAP_THRESHOLD


def is_running(error: BaseException) -> bool:
    """Whether one of MMEngine's loops was running when an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(f.name == "run" and "loops.py" in f.filename for f in frames)


def is_mistake(error: Exception, running: bool = False) -> bool:
    """Whether an error is a user's mistake, which needs no traceback."""
    if DEBUG in os.environ:
        return False
    if hasattr(error, "for_user") or _is_lost(error):
        return True
    if running:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        return full or isinstance(error, FloatingPointError) or _is_of_loader(error)
    built = "build_from_cfg" in "".join(traceback.format_exception(error))
    wrong_argument = "__init__()" in str(error)
    return (isinstance(error, MISTAKES) or built or wrong_argument) and not _is_from_user(error)


def _is_lost(error: Exception) -> bool:
    """Whether communication with another process failed."""
    return isinstance(error, distributed.DistError) or "gloo/transport" in str(error)


def _is_of_loader(error: Exception) -> bool:
    """Whether a dataloader worker hangs or was killed."""
    # While it sent a batch; what its own code raises has the text of a traceback.
    ended = isinstance(error, EOFError | ConnectionError) and "Traceback" not in str(error)
    return ended or (isinstance(error, RuntimeError) and str(error).startswith("DataLoader "))


def _is_from_user(error: BaseException) -> bool:
    """Whether the user's own code raised an error, or the one that led to it."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before  # MMEngine raises another one where it builds from a config
    frames = traceback.extract_tb(error.__traceback__)
    file = frames[-1].filename if frames else "<frozen"
    return file != "<string>" and not file.startswith(_LIBRARIES)


def describe(error: Exception) -> str:
    """Message of an error in words."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if "Original Traceback" in text:  # of a dataloader worker
        text = re.sub(r"^(\w+\.)+(?=\w+: )", "", text.strip().splitlines()[-1])
    if _is_lost(error):
        reason = re.sub(r"\[\S+:\d+\] ", "", text.splitlines()[0]).partition(". This")[0]
        text = f"another process is gone, or did not answer in time: {reason}"
    if _is_of_loader(error):
        text += "; a worker hangs or was killed (its decoder, storage or memory)"
    text = text.partition(" Please check whether")[0]  # MMEngine's long advice on registries
    known = isinstance(error, (*MISTAKES, RuntimeError, FloatingPointError))
    if not known and not hasattr(error, "for_user") and "__init__()" not in text:
        text = f"wrong value in the config? {type(error).__name__}: {text} ({DEBUG}=1 shows where)"
    return text if " " in text else f"{type(error).__name__}: {text}"
