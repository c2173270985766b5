"""What an output is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from mmvidformer.data.sources import Source
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import open_rows
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.annotations import Span
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.prediction import Prediction


@dataclass(frozen=True)
class SinkOptions:
    """How an output writes.

    Attributes:
        settings: What the rows depend on: model, names of the classes and options. An output that
            goes on in an old file compares them with those of the run that began it.
        top: Number of classes, for formats that nest.
        force: Whether an old file may be replaced, once the new one is whole.
        ahead: Seconds ahead of the predictions that are drawn, of a model that names several.
        truth: True segments by video, for pictures.
        has_window: Whether films are shown, too.
        rules: What is done when answers fulfil a rule (``sinks.rules``).
        say: Prints a line.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    top: int = 5
    force: bool = False
    ahead: float = 1.0
    truth: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    has_window: bool = False
    rules: Sequence[Any] = ()
    say: Callable[[str], object] = print


class Begun(NamedTuple):
    """A source whose predictions follow.

    Attributes:
        source: The source.
        part: What parts of it are, such as ``'windows'``.
        total: Their number, if it is known.
        fps: Frames per second of the frames that follow (``Sink.see``); None: there are none.
        none: What is said if there are no predictions.
    """

    source: Source
    part: str = ""
    total: int | None = None
    fps: float | None = None
    none: str = ""


class Sink(AbstractContextManager):
    """Takes predictions one by one, and writes each as it comes; a context manager.

    A subclass opens its file in ``__init__`` by ``open_rows``, and needs ``append``. Predictions of
    a file follow each other; several cameras take turns. What a file writes of one is
    ``Prediction.row``.

    Attributes:
        has_all_times: Whether it takes the predictions at all times ahead, where a model that
            anticipates has several; else it takes those at one of them.
        is_picture: Whether it draws, and says itself which files are written.
        parts: What alone it is for, such as ``'boxes'`` (``Answers.part``); empty: for all.
        needs_parts: Whether it is about parts of videos, which are then not answered as a whole.

    Args:
        target: The file.
        options: How to write.
    """

    has_all_times = False
    is_picture = False
    parts: tuple[str, ...] = ()
    needs_parts = False

    def __init__(self, target: Path, options: SinkOptions) -> None:
        raise NotImplementedError

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return the files that it will write, which must not be there; raise if it cannot."""
        return [] if str(target) == "-" else [(str(target), target)]

    @classmethod
    def check_task(cls, task: Answers) -> None:
        """Raise a ``UserError`` if it is not for predictions of a task."""
        if cls.parts and task.part not in cls.parts:
            raise UserError(f"{cls.__name__} is of {', '.join(cls.parts)}, not of {task.part}")

    def begin(self, begun: Begun) -> Sink:
        """Return what takes the predictions of a source, which may come between those of others.

        Default: itself, since it is the predictions that name their source.
        """
        return self

    def append(self, prediction: Prediction) -> None:
        """Write a prediction, or keep it until its segment has ended."""
        raise NotImplementedError

    def see(self, number: int, seconds: float, pixels: Any) -> None:
        """Take a frame of a source with ``Begun.fps``. Default: it draws none.

        Args:
            number: Number of the frame, from 0.
            seconds: Its time.
            pixels: RGB pixels (H, W, 3), uint8.
        """

    def end(self) -> None:
        """Take note that a source has ended."""

    def fail(self, video: str, error: str) -> None:
        """Take note of a video that could not be read, in place of ``end``."""

    def count(self, video: str, spans: list[tuple[float, float]]) -> int:
        """Return how many of the windows of a video are written already. Default: none."""
        return 0

    def finish(self) -> None:
        """Write what comes last. Default: nothing."""

    def close(self, *error: Any) -> None:
        """Finish, and close the files; ``error`` is type, value and traceback, if there is one."""
        try:
            self.finish()
        finally:
            self.files.__exit__(*(error or (None, None, None)))

    @cached_property
    def files(self) -> ExitStack:
        """What ``close`` closes."""
        return ExitStack()

    def open_rows(self, target: Path, options: SinkOptions) -> TextIO:
        """Open a file, which ``close`` closes, as ``storage.atomic.open_rows``."""
        return self.files.enter_context(open_rows(target, options.force))

    def __exit__(self, *error: Any) -> None:
        self.close(*error)
