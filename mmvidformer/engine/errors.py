import atexit
import ctypes
import errno
import multiprocessing
import os
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable
from itertools import dropwhile
from multiprocessing import util
from types import FrameType
from typing import NoReturn

from mmengine.dist import is_main_process
from torch import distributed

from mmvidformer.config.shipped import config_folder
from mmvidformer.errors import UserError

# What mistakes in arguments, configs and files raise before a runner runs. Those of files come from
# the system; the others are mistakes if these projects raise them, not if their code fails.
FILES = (OSError, UnicodeDecodeError, ModuleNotFoundError)
MISTAKES = (*FILES, ValueError, KeyError, ImportError, NotImplementedError)
PROJECTS = ("mmvidformer", "mmaction", "mmengine", "mmcv")
DEBUG = "MMVIDFORMER_DEBUG"
# Set by the launcher to the number of its process. The processes that it starts end with
# GONE_STATUS, the highest, in place of this message.
LAUNCHED, GONE_STATUS = "MMVIDFORMER_LAUNCHED", 255
GONE = "another process is gone, or did not answer in time"
LOST_WORKER = "a dataloader worker hangs or was killed (its decoder, storage or memory)"
PR_SET_PDEATHSIG = 1  # of Linux's prctl
# Modules that raise an error in the main process when a worker is lost.
WORKER_MODULES = ("multiprocessing.", "torch.utils.data.")


def run_tool(main: Callable[[], int | None]) -> int:
    """Run the ``main`` of a tool; print a user's mistake as ``error: ...`` without traceback.

    A ``UserError`` is always one, and so are lost processes and workers, and a full disk. Before a
    runner runs, further ones are ``MISTAKES`` that ``PROJECTS`` raise or that concern files, and
    all errors of a part that is built from a config. The rest keep their traceback, so do errors in
    code of the user's own before a runner runs, and all with ``MMVIDFORMER_DEBUG``. Returns the
    exit status: that of ``main``, 2 for a mistake before a runner runs, 1 for others. A process of
    a group ends here with that status.
    """
    end_with_launcher()
    try:
        status = main() or 0
        if distributed.is_initialized():
            leave_group(status)
        return status
    except SystemExit as end:
        if end.code and has_processes():
            end_process(end.code if isinstance(end.code, int) else 1)
        raise
    except KeyboardInterrupt:
        if is_main_process():
            print("interrupted", file=sys.stderr)
        end_process(130)
    except Exception as error:
        if LAUNCHED in os.environ and DEBUG not in os.environ and lost_part(error) == GONE:
            end_process(GONE_STATUS)
        running = is_running(error)
        mistake = is_mistake(error, running)
        if mistake:
            print(f"error: {describe(error)}", file=sys.stderr)
        elif has_processes():
            traceback.print_exc()
        else:
            raise
        status = 2 if mistake and not running else 1
        if has_processes():
            end_process(status)
        return status


def has_processes() -> bool:
    """Whether this process has dataloader workers, or belongs to a group of processes."""
    return bool(multiprocessing.active_children()) or distributed.is_initialized()


def leave_group(status: int) -> NoReturn:
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


def is_running(error: BaseException) -> bool:
    """Whether one of MMEngine's loops was running when an error was raised."""
    return any(
        frame.f_code.co_name == "run" and "loops.py" in frame.f_code.co_filename
        for frame in _frames_of(error)
    )


def is_mistake(error: Exception, running: bool = False) -> bool:
    """Whether an error is a user's mistake, which needs no traceback."""
    if DEBUG in os.environ:
        return False
    if isinstance(error, UserError) or lost_part(error):
        return True
    if running:
        return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    frames = _frames_of(error)
    # The first ones are of ``main``, whosever it is.
    if any(map(_is_users, dropwhile(_is_users, frames[1:]))):
        return False
    is_raised = _is_project(frames[-1]) and _last_line(error).startswith("raise ")
    mistakes = MISTAKES if is_raised else FILES
    return isinstance(error, mistakes) or _is_built(error)


def lost_part(error: Exception) -> str:
    """Return what hangs or has died, if an error says so; else an empty string."""
    # PyTorch has a class for errors of NCCL; those of gloo are known by their text alone.
    if isinstance(error, distributed.DistError) or "gloo/transport" in str(error):
        return GONE
    is_lost = isinstance(error, RuntimeError | EOFError | ConnectionError)
    if is_lost and _module_that_raised(error).startswith(WORKER_MODULES):
        return LOST_WORKER
    return ""


def describe(error: Exception) -> str:
    """Message of an error in words."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if lost := lost_part(error):
        reason = (text.splitlines() or [type(error).__name__])[0]
        text = f"{lost}: {reason.partition('. This')[0]}"  # gloo's long advice
    elif _module_that_raised(error) == "torch._utils":  # raised again by the dataloader
        text = text.strip().splitlines()[-1].partition(": ")[2]  # of the worker's traceback
    elif _is_built(error):
        text = f"{type(error).__name__}: {text} ({DEBUG}=1 shows the traceback)"
    return text if " " in text else f"{type(error).__name__}: {text}"


def _frames_of(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _module_of(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "")


def _module_that_raised(error: BaseException) -> str:
    frames = _frames_of(error)
    return _module_of(frames[-1]) if frames else ""


def _is_project(frame: FrameType) -> bool:
    tools = str(config_folder().parent / "tools") + os.sep
    root = _module_of(frame).partition(".")[0]
    return root in PROJECTS or frame.f_code.co_filename.startswith(tools)


def _is_users(frame: FrameType) -> bool:
    """Whether a frame is of neither a project nor an installed library."""
    path = frame.f_code.co_filename
    is_library = path.startswith(("<", sysconfig.get_path("stdlib"))) or "-packages" in path
    return not is_library and not _is_project(frame)


def _last_line(error: BaseException) -> str:
    """Return the line of code that raised an error."""
    return traceback.extract_tb(error.__traceback__)[-1].line or ""


def _is_built(error: BaseException) -> bool:
    """Whether an error was raised by a part that MMEngine builds from a config."""
    return any(frame.f_code.co_name == "build_from_cfg" for frame in _frames_of(error))
