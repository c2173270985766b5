"""Writing answers in parts, before too much work would be lost."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Protocol

from mmvidformer.tasks.rows import Answer

MOST_ROWS = 50_000  # of a part
MOST_SECONDS = 60.0  # from the first answer of a part to its writing
STOPS = ("SIGTERM", "SIGHUP")  # of a cluster, and of a terminal that closes


class Table(Protocol):
    """What takes the answers, and goes on with those of earlier runs; a context manager."""

    def __enter__(self) -> Any:
        """Hold the table."""

    def __exit__(self, *error: object) -> None:
        """Let others write."""

    def missing(self, retry: bool) -> list[str]:
        """Return the names of the videos that have no answer."""

    def failed(self) -> dict[str, str]:
        """Return the reason of each video that could not be read."""

    def write(self, answers: Sequence[Answer]) -> None:
        """Write a part: all of its answers, or none."""


class PartWriter:
    """Collects answers and writes them to a table in parts.

    A part has ``size`` videos that follow each other in their list, if these come within a minute.
    Otherwise, and with more than ``MOST_ROWS`` rows, it has what has come.

    Args:
        table: The table.
        names: Names of the videos, in the order of their list.
        size: Number of videos.
    """

    def __init__(self, table: Table, names: Sequence[str], size: int) -> None:
        self.table, self.size = table, size
        self._waiting = list(names)  # not written yet
        self._ready = 0  # number of the first of these that have an answer
        self._answers: dict[str, tuple[float, Answer]] = {}  # and when they came
        self._rows = 0

    def add(self, answers: Sequence[Answer]) -> None:
        """Take answers, perhaps none, and write what is due."""
        now = time.monotonic()
        for answer in answers:
            self._answers[answer.name] = now, answer
            self._rows += len(answer.rows)
        oldest, _ = next(iter(self._answers.values()), (now, None))
        if now - oldest >= MOST_SECONDS or self._rows >= MOST_ROWS:
            self.write_all()
        while self._ready < len(self._waiting) and self._waiting[self._ready] in self._answers:
            self._ready += 1
            if self._ready == self.size:
                self._write(self._waiting[: self.size])
                del self._waiting[: self.size]
                self._ready = 0

    def write_all(self) -> None:
        """Write all that has come."""
        if self._answers:
            names = [name for name in self._waiting if name in self._answers]
            others = [name for name in self._waiting if name not in self._answers]
            self._write(names)
            self._waiting, self._ready = others, 0

    def _write(self, names: Sequence[str]) -> None:
        self.table.write([self._answers[name][1] for name in names])
        for name in names:
            _, answer = self._answers.pop(name)
            self._rows -= len(answer.rows)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let what stops a command raise ``SystemExit``, so that it can write what it has."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

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
