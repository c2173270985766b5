"""The bad samples of a data set, gathered from all workers of its loaders."""

import json
import os
import tempfile
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class BadSample:
    """A sample that could not be read.

    Args:
        item: Its number in the data set.
        path: Its file.
        reason: What is wrong with the file.
        deadly: Whether reading it hangs or crashes, so that no one should try again.
    """

    item: int
    path: str
    reason: str
    deadly: bool = False


class Ledger:
    """A temporary file to which the workers of a loader, forked or spawned, append bad samples.

    Lines are short and written at once, so that writers need no lock; two that find the same file
    bad at the same moment may both take it for new. The process that made the ledger removes it.
    """

    def __init__(self) -> None:
        handle, self.file = tempfile.mkstemp(prefix="bad_videos_", suffix=".jsonl")
        os.close(handle)
        self._samples: dict[int, BadSample] = {}
        self._deadly: dict[str, str] = {}
        self._offset = 0
        self._end = weakref.finalize(self, _remove, self.file, os.getpid())

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_end"}

    def samples(self) -> list[BadSample]:
        """The bad samples so far, each once, in the order in which they were found."""
        self._update()
        return list(self._samples.values())

    @property
    def deadly(self) -> dict[str, str]:
        """Files that no one should try again, and why."""
        self._update()
        return self._deadly

    def _update(self) -> None:
        if os.path.getsize(self.file) == self._offset:
            return
        with open(self.file, "rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._offset += len(line)
                sample = BadSample(**json.loads(line))
                self._samples.setdefault(sample.item, sample)
                if sample.deadly:
                    self._deadly.setdefault(sample.path, sample.reason)

    def add(self, sample: BadSample) -> bool:
        """Enter a bad sample; tells whether its file is new."""
        known = self.samples()
        if all(sample.item != other.item for other in known):
            line = json.dumps(asdict(sample)) + "\n"
            with open(self.file, "ab", buffering=0) as file:
                file.write(line.encode())
        return all(sample.path != other.path for other in known)


def _remove(file: str, owner: int) -> None:
    if os.getpid() == owner:
        Path(file).unlink(missing_ok=True)
