"""A limit of the time in which a process reads without getting on.

In a process that has set one, the system ends it (SIGALRM), also in native code that keeps the
interpreter's lock. Without one, nothing happens, and on Windows, which has no such timer.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_seconds = 0.0
_readers = 0  # threads, or levels of calls, that read at present


def limit_silence(seconds: float) -> None:
    """End this process if it reads for so many seconds without ``note_progress``; 0: never."""
    global _seconds
    _seconds = seconds if hasattr(signal, "setitimer") else 0.0


@contextmanager
def reading() -> Iterator[None]:
    """Mark what reads, and so is limited."""
    if not _seconds:
        yield
        return
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def note_progress() -> None:
    """Say that a frame or a packet has been read: the time begins anew."""
    if _readers:
        signal.setitimer(signal.ITIMER_REAL, _seconds)


def _count(change: int) -> None:
    global _readers
    with _lock:
        _readers += change
        signal.setitimer(signal.ITIMER_REAL, _seconds if _readers else 0)
