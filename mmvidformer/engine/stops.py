"""What stops a command from outside, so that it ends in order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPS = ("SIGTERM", "SIGHUP")  # of a cluster, and of a terminal that closes


@contextmanager
def stopped_by_signals(status: int | None = None) -> Iterator[None]:
    """Let what stops a command raise ``SystemExit``, so that it can write what it has.

    Args:
        status: Of the process that ends so. Default: 128 + the signal's number, as in shells.
    """

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number if status is None else status)

    replaced = []
    if threading.current_thread() is threading.main_thread():
        for name in STOPS:
            number = getattr(signal, name, None)  # not all systems have them
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, stop)
                replaced.append(number)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
