"""Predictions as lines of a terminal."""

import sys
from copy import copy
from pathlib import Path

from tqdm import tqdm

from mmvidformer.sinks.base import Begun, Sink, SinkOptions
from mmvidformer.storage.names import spell
from mmvidformer.tasks.prediction import Prediction


class Lines(Sink):
    """Prints a line for each prediction, and the number of those of a video above them.

    Args:
        target: None.
        options: ``top`` and ``say``.
    """

    _begun: Begun
    _waiting: list[str]  # below a number that is not known yet

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._options, self._count, self._is_whole = options, 0, False

    def begin(self, begun: Begun) -> Sink:
        """Print how many parts there are, if that is known."""
        lines = copy(self)
        lines._begun, lines._waiting = begun, []
        if begun.total is not None:
            lines._say_count(begun.total)
        return lines

    def append(self, prediction: Prediction) -> None:
        """Print a prediction, if there is nothing to print before."""
        self._count += 1
        source, text = prediction.source, prediction.text(self._options.top)
        if prediction.seconds is None:
            self._is_whole = True
            self._say(f"{source}: {text}")
            return
        part = "{:.2f}-{:.2f} s".format(*prediction.seconds)
        if prediction.ahead is not None:
            part += f", {prediction.ahead:.2f} s ahead"
        if self._begun.source.is_stream:
            self._say(f"{source} {part}: {text}")
        else:
            self._say_part(f"  {part}: {text}")

    def end(self) -> None:
        """Print what waited."""
        begun = self._begun
        if begun.total is not None or begun.fps is not None or self._is_whole:
            return
        if self._count:
            self._say_count(self._count)
        else:
            self._say(f"{begun.source.name}: {begun.none}")
        for line in self._waiting:
            self._say(line)

    def fail(self, video: str, error: str) -> None:
        """Print what is wrong with a video."""
        tqdm.write(f"failed: {error}", file=sys.stderr)

    def _say_part(self, line: str) -> None:
        if self._begun.total is None and self._begun.fps is None:
            self._waiting.append(line)
        else:
            self._say(line)

    def _say_count(self, count: int) -> None:
        self._say(f"{self._begun.source.name}: {count} {self._begun.part}")

    def _say(self, line: str) -> None:
        self._options.say(spell(line))


class Counts(Lines):
    """Prints the numbers alone, and predictions of streams: those of files are in a table."""

    def _say_part(self, line: str) -> None:
        pass
