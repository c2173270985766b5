"""Files that are read where they are asked for."""

import io
import os
from typing import Any

from mmvidformer.storage.files import file_size, read_range

BLOCK = 1 << 18  # bytes that a file object reads at least
MOST_BYTES = 1 << 24  # of a video that is read at once; larger ones are read where it is needed


class RangeFile(io.RawIOBase):
    """A file, or a part of one, that is read where it is asked for.

    Args:
        path: Path or address.
        start: First byte.
        size: Number of bytes; None: all.
    """

    def __init__(self, path: str, start: int = 0, size: int | None = None) -> None:
        self.name, self._start, self._place = path, start, 0
        self._size = file_size(path) - start if size is None else size

    @classmethod
    def open(cls, path: str, start: int = 0, size: int | None = None) -> io.BufferedReader:
        """Open a file, of which blocks of ``BLOCK`` bytes are read."""
        return io.BufferedReader(cls(path, start, size), BLOCK)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(base + offset, 0)
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read on, until the buffer is full or the file ends."""
        size = max(min(len(buffer), self._size - self._place), 0)
        if size:
            buffer[:size] = read_range(self.name, self._start + self._place, size)
        self._place += size
        return size
