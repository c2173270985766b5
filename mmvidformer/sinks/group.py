"""Several outputs as one."""

from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from typing import Any

from mmvidformer.sinks.base import Begun, Sink, SinkOptions
from mmvidformer.tasks.prediction import Prediction


class Sinks(Sink):
    """Opens outputs, and passes on to each what it takes.

    Args:
        targets: Classes of the outputs, and their files.
        options: How to write.
        shown_ahead: Seconds ahead of the predictions that all outputs take; None: all have one.

    Attributes:
        failed: What is wrong with videos, by name.
    """

    def __init__(
        self,
        targets: Sequence[tuple[type[Sink], Path]],
        options: SinkOptions,
        shown_ahead: float | None = None,
    ) -> None:
        self._shown_ahead = shown_ahead
        self._sinks: list[Sink] = []
        with ExitStack() as files:  # those that are open are closed if another cannot be
            for sink, target in targets:
                self._sinks.append(files.enter_context(sink(target, options)))
            self.files = files.pop_all()
        self.needs_parts = any(sink.needs_parts for sink in self._sinks)
        self.failed: dict[str, str] = {}

    def begin(self, begun: Begun) -> Sink:
        """Return those of a source."""
        sinks = copy(self)
        sinks._sinks = [sink.begin(begun) for sink in self._sinks]
        return sinks

    def append(self, prediction: Prediction) -> None:
        """Pass it on to those that take its time ahead."""
        is_shown = prediction.ahead == self._shown_ahead or self._shown_ahead is None
        for sink in self._sinks:
            if is_shown or sink.has_all_times:
                sink.append(prediction)

    def see(self, number: int, seconds: float, pixels: Any) -> None:
        """Pass it on."""
        for sink in self._sinks:
            sink.see(number, seconds, pixels)

    def end(self) -> None:
        """Pass it on."""
        for sink in self._sinks:
            sink.end()

    def fail(self, video: str, error: str) -> None:
        """Pass it on, and keep it in ``failed``."""
        self.failed[video] = error
        for sink in self._sinks:
            sink.fail(video, error)

    def count(self, video: str, spans: list[tuple[float, float]]) -> int:
        """Return how many windows of a video one of them has."""
        return max((sink.count(video, spans) for sink in self._sinks), default=0)
