"""An output: predictions as a table of Markdown."""

from pathlib import Path
from typing import Any

from mmvidformer.apis import Prediction
from mmvidformer.sinks.base import Sink, SinkOptions


class MarkdownTable(Sink):
    """A row for each prediction, written as it comes."""

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._file = self.open_rows(target, options)
        self._has_header = False

    def append(self, prediction: Prediction) -> None:
        """Write a prediction."""
        row = prediction.row()
        if not self._has_header:
            self._write(row)
            self._write(["---"] * len(row))
            self._has_header = True
        self._write(row.values())

    def _write(self, cells: Any) -> None:
        self._file.write(f"| {' | '.join(map(str, cells))} |\n")
