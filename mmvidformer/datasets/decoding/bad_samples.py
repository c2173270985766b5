"""The record of the bad samples of a dataset, which all dataloader workers share."""

import json
import os
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path
from typing import NamedTuple


class BadSample(NamedTuple):
    """A sample that could not be read: its index, its file, which others may share, and why."""

    index: int
    path: str
    reason: str


class BadSamples:
    """Record of bad samples in a temporary file, to which forked and spawned workers append.

    Lines are short and written at once, so writers need no lock. The process that made the record
    removes the file.
    """

    def __init__(self) -> None:
        handle, self.file = tempfile.mkstemp(prefix="bad_samples_", suffix=".jsonl")
        os.close(handle)
        self._known: dict[int, BadSample] = {}
        self._offset = 0
        Finalize(self, Path(self.file).unlink, (True,), exitpriority=0)  # not in forks

    def known(self) -> dict[int, BadSample]:
        """Return all bad samples by index."""
        if os.path.getsize(self.file) > self._offset:
            with open(self.file, "rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._offset += len(line)
                    sample = BadSample(*json.loads(line))
                    self._known.setdefault(sample.index, sample)
        return self._known

    def add(self, sample: BadSample) -> None:
        """Add a sample, unless the record has it."""
        if sample.index not in self.known():
            with open(self.file, "ab", buffering=0) as file:
                file.write(f"{json.dumps(sample)}\n".encode())
