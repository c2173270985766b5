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
        self._in_epoch: set[int] = set()
        self._offset = 0
        Finalize(self, Path(self.file).unlink, (True,), exitpriority=0)  # not in forks

    def known(self) -> dict[int, BadSample]:
        """Return all bad samples by index."""
        if os.path.getsize(self.file) == self._offset:
            return self._known
        with open(self.file, "rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._offset += len(line)
                sample, in_epoch = json.loads(line)
                if sample is None:
                    self._in_epoch = set()
                    continue
                self._known.setdefault(sample[0], BadSample(*sample))
                if in_epoch:
                    self._in_epoch.add(sample[0])
        return self._known

    def in_epoch(self) -> int:
        """Return the number of bad samples that were due in this epoch."""
        self.known()
        return len(self._in_epoch)

    def add(self, sample: BadSample, in_epoch: bool = False) -> None:
        """Add a sample, which was due in this epoch or not, unless the record has it as such."""
        known = self.known()
        if sample.index not in (self._in_epoch if in_epoch else known):
            self._append(sample, in_epoch)

    def start_epoch(self) -> None:
        """Start the count of ``in_epoch`` again, in all workers."""
        self._append(None, False)

    def _append(self, sample: BadSample | None, in_epoch: bool) -> None:
        with open(self.file, "ab", buffering=0) as file:
            file.write(f"{json.dumps((sample, in_epoch))}\n".encode())
