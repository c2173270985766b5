"""Values that are remembered up to a number of bytes."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class IndexMemory(Generic[Value]):
    """Remembers the values that were used last; threads may share it.

    Args:
        most_bytes: Bytes of all values together.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def get(self, key: Hashable) -> Value | None:
        """Return a value, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Remember a value of ``size`` bytes, and forget the oldest ones."""
        with self._lock:
            if key not in self._values:
                self._values[key] = value, size
                self._bytes += size
            while self._bytes > self.most_bytes:
                _, (_, oldest_size) = self._values.popitem(last=False)
                self._bytes -= oldest_size
