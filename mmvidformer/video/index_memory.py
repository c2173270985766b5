"""Indexes of files, which are remembered."""

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmvidformer.video.index import Index


class IndexMemory:
    """Indexes by what tells files apart: those used last, which fit into some bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._indexes: OrderedDict[tuple, Index] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def get(self, key: tuple) -> "Index | None":
        """Return an index, or None."""
        with self._lock:
            if key in self._indexes:
                self._indexes.move_to_end(key)
            return self._indexes.get(key)

    def put(self, key: tuple, index: "Index") -> None:
        """Remember an index."""
        with self._lock:
            if key not in self._indexes:
                self._indexes[key] = index
                self._bytes += _bytes_of(index)
            while self._bytes > self.most_bytes:
                _, oldest = self._indexes.popitem(last=False)
                self._bytes -= _bytes_of(oldest)


def _bytes_of(index: "Index") -> int:
    arrays = (index.stamps, index.times.starts, index.keys)
    return 1000 + sum(array.nbytes for array in arrays if array is not None)
