"""A full disk, as far as a process can have one."""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
    """Call a writer in a process of its own, which it may end, and return its error."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with small_files(size):
                write()
            text = "none"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        text = file.read().decode()
    assert os.waitpid(child, 0)[1] == 0, "the writer ended its process"
    return text
