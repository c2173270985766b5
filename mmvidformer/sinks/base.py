"""What an output is."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmvidformer.tasks.prediction import Prediction


@dataclass(frozen=True)
class SinkOptions:
    """How an output writes.

    Attributes:
        settings: What the rows depend on: model, names of the classes and options. An output that
            goes on in an old file compares them with those of the run that began it.
        top: Number of classes, for formats that nest.
        force: Whether an old file may be replaced, once the new one is whole.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    top: int = 5
    force: bool = False


class Sink(AbstractContextManager):
    """Takes predictions one by one, and writes each as it comes; a context manager.

    A subclass opens its file in ``__init__``. Predictions of a video follow each other. What a file
    writes of one is ``Prediction.row``.

    Attributes:
        help: What the command line says of it.
        has_all_times: Whether it takes the predictions at all times ahead, where a model that
            anticipates has several; else it takes those at one of them.

    Args:
        target: The file.
        options: How to write.
    """

    help = ""
    has_all_times = False

    def __init__(self, target: Path, options: SinkOptions) -> None:
        raise NotImplementedError

    def append(self, prediction: Prediction) -> None:
        """Write a prediction, or keep it until its segment has ended."""
        raise NotImplementedError

    def fail(self, video: str, error: str) -> None:
        """Take note of a video that could not be read. Default: it has no rows."""

    def count(self, video: str, spans: list[tuple[float, float]]) -> int:
        """Return how many of the windows of a video are written already. Default: none."""
        return 0

    def close(self, *error: object) -> None:
        """End the file; ``error`` is what a ``with`` block gets: type, value and traceback."""

    def __exit__(self, *error: object) -> None:
        self.close(*error)
