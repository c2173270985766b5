"""Answers for many videos, which come in any order and are written in parts."""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mmvidformer.storage.resuming import ResumingTable

PART = 256  # videos
MOST_ROWS = 50_000  # of a part
MOST_SECONDS = 60.0  # from the first answer of a part to its writing


class Answer(NamedTuple):
    """The rows of a video, or why it has none."""

    name: str
    rows: list[dict[str, Any]]
    error: str | None = None


class PartTable(ResumingTable):
    """Takes the answers for videos, and writes them in parts, before too much work would be lost.

    A part has ``part`` videos that follow each other in their list, if these come within a minute.
    Otherwise, and with more than ``MOST_ROWS`` rows, it has what has come.

    Args:
        folder: Folder or address of the results.
        settings: What they depend on.
        names: Names of all videos, in the order of their list.
        part: Number of videos.
    """

    def __init__(
        self, folder: str, settings: Mapping[str, Any], names: Sequence[str], part: int = PART
    ) -> None:
        self.folder, self.names, self.part = folder, names, part
        super().__init__(folder, settings)
        self._waiting: list[str] = []  # not written yet
        self._ready = 0  # number of the first of these that have an answer
        self._answers: dict[str, tuple[float, Answer]] = {}  # and when they came
        self._rows = 0

    @abstractmethod
    def missing(self, retry: bool) -> list[str]:
        """Return the names of the videos that have no answer."""

    @abstractmethod
    def failed(self) -> dict[str, str]:
        """Return the reason of each video that could not be read."""

    @abstractmethod
    def write_part(self, answers: Sequence[Answer]) -> None:
        """Write a part: all of its answers, or none."""

    def begin(self, names: Sequence[str]) -> None:
        """Take the names of the videos whose answers follow, in the order of their list."""
        self._waiting = list(names)

    def append(self, answer: Answer) -> None:
        """Take an answer, and write what is due."""
        self._answers[answer.name] = time.monotonic(), answer
        self._rows += len(answer.rows)
        self.write_due()

    def write_due(self) -> None:
        """Write what is due; it must be called now and then."""
        now = time.monotonic()
        oldest, _ = next(iter(self._answers.values()), (now, None))
        if now - oldest >= MOST_SECONDS or self._rows >= MOST_ROWS:
            self.end()
        while self._ready < len(self._waiting) and self._waiting[self._ready] in self._answers:
            self._ready += 1
            if self._ready == self.part:
                self._write(self._waiting[: self.part])
                del self._waiting[: self.part]
                self._ready = 0

    def end(self) -> None:
        """Write all that has come."""
        if self._answers:
            names = [name for name in self._waiting if name in self._answers]
            others = [name for name in self._waiting if name not in self._answers]
            self._write(names)
            self._waiting, self._ready = others, 0

    def _write(self, names: Sequence[str]) -> None:
        self.write_part([self._answers[name][1] for name in names])
        for name in names:
            _, answer = self._answers.pop(name)
            self._rows -= len(answer.rows)
