"""A full disk, as far as a process can have one."""

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def small_files(size: int = 4096) -> Iterator[None]:
    """Limit files to some bytes, as on a full disk.

    The limit holds for the process, so it must be gone before pytest writes its next line.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def error_of(write: Callable[[], object], size: int = 4096) -> str:
    """Call a writer on a full disk, and return its error."""
    with small_files(size), pytest.raises(Exception) as error:
        write()
    return f"{type(error.value).__name__}: {error.value}"
