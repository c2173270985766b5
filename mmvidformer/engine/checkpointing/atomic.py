"""Files that are either complete or not there."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mmengine.fileio import LocalBackend


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name in the same folder, flush it to disk and rename it.

    If the process or the machine dies at any moment, ``path`` holds either its old content or the
    new one.

    Args:
        path: File to write. An existing file is replaced.
        write: Function that is called with the open file.

    Raises:
        OSError: If the file cannot be written, for example on a full disk. ``path`` then keeps its
            old content.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # "No space left on device" does not name the file
        raise
    with suppress(OSError):  # flush the rename; not every system can open a folder
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class AtomicBackend(LocalBackend):
    """MMEngine's backend for local files, which writes with ``write_atomically``."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write bytes."""
        write_atomically(filepath, lambda file: file.write(obj))
