"""Signals by which a cluster asks a run to stop."""

import signal
import threading
from contextlib import AbstractContextManager

# Windows lacks the second one.
SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]


class StopSignals(AbstractContextManager):
    """Context in which the first SIGTERM or SIGUSR1 is only noted, as ``received``.

    The handlers from before are restored then, so that a second signal ends the process, and when
    the context ends. In other threads than the main one, where Python allows no handlers, nothing
    is noted.
    """

    received = 0  # number of the signal

    def __enter__(self) -> "StopSignals":
        main = threading.current_thread() is threading.main_thread()
        numbers = SIGNALS if main else ()
        self._before = {number: signal.signal(number, self._receive) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _receive(self, number: int, frame: object) -> None:
        self.received = number
        self.__exit__()
