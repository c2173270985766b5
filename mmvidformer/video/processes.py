"""Processes that work on groups of videos, and may be ended by one."""

import io
import os
import pickle
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import (
    get_all_start_methods,
    get_context,
    parent_process,
    set_forkserver_preload,
)
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mmvidformer.errors import LostProcess, UserError
from mmvidformer.video.progress import limit_silence

TRIES = 2  # of a video whose process dies: the system may have ended it for want of memory
TICK = 5.0  # seconds after which a caller hears that nothing has come
MOST_GROUPS = 100  # of a process, which is replaced then, since decoders may leak memory

Named = tuple[str, Any]  # the name of a video, and what it is read from


class Message(Protocol):
    """A part of what comes of a group.

    Attributes:
        finished: Names of the videos of which all has come.
    """

    finished: Sequence[str]


class Lost(NamedTuple):
    """What the end of a process means; without names, that nothing has come for ``TICK`` seconds.

    Attributes:
        again: Names of videos that are read again, alone: what has come of them is void.
        failed: Names of videos that have ended their process again, and how.
    """

    again: Sequence[str] = ()
    failed: Sequence[tuple[str, str]] = ()


# From a group, and what is to be told the name of each video before it is touched.
Work = Callable[[Sequence[Named], Callable[[str], None]], Iterator[Any]]


def run_groups(
    work: Work,
    groups: Iterable[Sequence[Named]],
    count: int,
    time_limit: float,
    threads: int | None = None,
    preloaded: Sequence[str] = (),
) -> Iterator[Any]:
    """Work on groups of videos in ``count`` processes, and yield the messages as they come.

    If a process dies, the rest of its group is done again, a video at a time. A video that ends its
    process twice, or of which nothing new is read for ``time_limit`` seconds, has failed.

    Args:
        work: What is done with a group; it is pickled.
        groups: The groups.
        count: Number of processes; 0: this one does it, which a video can end.
        time_limit: Seconds.
        threads: Of PyTorch and OpenCV in a process; None: as they choose.
        preloaded: Modules that the processes import, once for all.

    Yields:
        Messages, those of a group in order, and ``Lost``.

    Raises:
        ChildProcessError: If processes end before they touch a video.
        Exception: What ``work`` raises.
    """
    if not count:
        for group in groups:
            yield from work(group, lambda name: None)
        return
    waiting, alone = iter(groups), deque[Sequence[Named]]()
    deaths: Counter[str] = Counter()
    start = partial(_Process, work, time_limit, threads)
    set_forkserver_preload(list(preloaded))
    processes = [start() for _ in range(count)]
    try:
        while True:
            for number, process in enumerate(processes):
                if process.is_busy:
                    continue
                group = alone.popleft() if alone else next(waiting, None)
                if group is None:
                    continue
                if process.count == MOST_GROUPS:
                    process.end()
                if process.is_dead:
                    processes[number] = process = start()
                process.begin(group)
            busy = {process.pipe: process for process in processes if process.is_busy}
            if not busy:
                return
            ready = wait(list(busy), TICK)
            if not ready:
                yield Lost()
            for pipe in ready:
                process = busy[pipe]  # type: ignore[index]
                try:
                    message = process.receive()
                except (EOFError, OSError) as error:
                    if isinstance(error, UserError):
                        raise
                    lost = _after_death(process, deaths, time_limit)
                    alone.extend([video] for video in process.group if video[0] in lost.again)
                    yield lost
                else:
                    if message is not None:
                        yield message
    finally:
        for process in processes:
            process.end()


def clean_context() -> BaseContext:
    """Return how processes start that have none of the threads of this one, unlike a fork."""
    has_server = "forkserver" in get_all_start_methods()  # Windows has none
    return get_context("forkserver" if has_server else "spawn")


def _after_death(process: "_Process", deaths: Counter[str], time_limit: float) -> Lost:
    """Return what is lost with a process."""
    code = process.end(wait=True)
    how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    deaths[process.name] += 1
    if not process.name and deaths[process.name] > TRIES:
        raise LostProcess(f"processes that read videos end before they begin ({how})")
    names = [name for name, _ in process.group]
    if process.name not in names:  # it had finished that
        return Lost(names)
    if how == "SIGALRM":
        reason = f"nothing could be read for {time_limit:g} s"
    elif deaths[process.name] == TRIES:
        reason = f"it ended the process that read it ({how})"
    else:
        return Lost(names)
    names.remove(process.name)
    return Lost(names, [(process.name, reason)])


class _Process:
    """A process that works on a group at a time.

    Attributes:
        is_busy: Whether it works on a group.
        is_dead: Whether it has ended.
        count: Number of groups that it has done.
        group: The videos of its group of which not all has come.
        name: That which it touched last.
    """

    def __init__(self, work: Work, time_limit: float, threads: int | None) -> None:
        context = clean_context()
        self.pipe, end = context.Pipe()
        self.is_busy, self.is_dead, self.name, self.count = False, False, "", 0
        self.group: list[Named] = []
        arguments = end, work, time_limit, threads
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        with _no_interrupt():
            self._process.start()
        end.close()

    def begin(self, group: Sequence[Named]) -> None:
        """Give it a group."""
        self.group, self.is_busy = list(group), True
        with suppress(OSError):  # it has died, as ``receive`` will say
            send_copy(self.pipe, self.group)

    def receive(self) -> Any:
        """Return a message; None if it is not for the caller.

        Raises:
            EOFError, OSError: If the process has died.
            Exception: What its work has raised.
        """
        message = pickle.loads(self.pipe.recv_bytes())
        if hasattr(message, "reraise"):
            message.reraise()
        if message is None:
            self.is_busy, self.count = False, self.count + 1
        elif isinstance(message, str):
            self.name = message
        else:
            self.group = [video for video in self.group if video[0] not in message.finished]
            return message
        return None

    def end(self, wait: bool = False) -> int:
        """Kill it, or ``wait`` for it to end by itself, and return its exit status."""
        # Looked at first: the number of one that has ended may be another process's by now.
        self._process.join(TICK if wait else 0)
        self._process.kill()
        self._process.join()
        self.pipe.close()
        self.is_busy, self.is_dead = False, True
        return self._process.exitcode


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Keep Ctrl-C from a process that starts, until it can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(pipe: Connection, work: Work, time_limit: float, threads: int | None) -> None:
    """Work on groups until the other end closes.

    The name of a video is sent before it is touched, then messages, and None after the last one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this one
    end_with_parent()
    if threads is not None:
        import cv2
        import torch  # takes a second, and data check needs none

        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)
    with suppress(OSError):  # where memory is short, Linux ends this one and not the model
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")
    limit_silence(time_limit)
    while True:
        try:
            group = pickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionError):
            return
        try:
            for message in work(group, partial(send_copy, pipe)):
                send_copy(pipe, message)
        except Exception:
            from torch._utils import ExceptionWrapper

            send_copy(pipe, ExceptionWrapper(sys.exc_info(), f"in process {os.getpid()}"))
        else:
            send_copy(pipe, None)


def end_with_parent() -> None:
    """Let this process end with its parent, also if that is killed; to be called once."""
    parent = parent_process()
    if parent is None:  # in a worker that PyTorch runs as a thread
        return
    with suppress(ImportError, AttributeError):  # Linux alone has signals of pipes
        import fcntl

        pipe = parent.sentinel  # its end also ends native code that keeps the interpreter's lock
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)

    def wait_and_exit() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_exit, daemon=True).start()


def send_copy(pipe: Connection, message: object) -> None:
    """Send a message, of which the receiver needs nothing of this process."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(message)
    pipe.send_bytes(buffer.getbuffer())


class _Pickler(pickle.Pickler):
    """Copies tensors: PyTorch's way of sending them needs that the sender lives on."""

    def reducer_override(self, value: object) -> Any:
        """Send the numbers of a tensor."""
        torch = sys.modules.get("torch")
        is_tensor = torch is not None and type(value) is torch.Tensor
        if is_tensor and value.device.type == "cpu" and not value.requires_grad:
            with suppress(TypeError):  # NumPy lacks bfloat16
                return torch.from_numpy, (value.numpy(),)
        return NotImplemented
