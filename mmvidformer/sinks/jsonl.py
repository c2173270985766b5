"""JSON lines."""

import json
import sys
from pathlib import Path
from typing import Any

from mmvidformer.sinks.base import Sink, SinkOptions
from mmvidformer.tasks.prediction import Prediction


class JsonLines(Sink):
    """A line of JSON for each prediction, and for each video that could not be read.

    ``-`` is the standard output.
    """

    has_all_times = True

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._top = options.top
        self._file = sys.stdout
        if str(target) != "-":
            self._file = self.open_rows(target, options)

    def append(self, prediction: Prediction) -> None:
        """Write a prediction, with its best classes as ``top``."""
        self._write(prediction.row(self._top))

    def fail(self, video: str, error: str) -> None:
        """Write what is wrong with a video."""
        self._write({"video": video, "error": error})

    def _write(self, line: dict[str, Any]) -> None:
        print(json.dumps(line, ensure_ascii=False), file=self._file, flush=True)
