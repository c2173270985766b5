"""Atomic file writes."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; then flush it to disk and rename it to ``path``.

    If the process or the machine dies at any moment, ``path`` holds either its old content or the
    new one. The temporary name is random, since processes on other machines may write the same
    file.

    Args:
        path: File to write. An existing file is replaced, and missing folders are made.

    Raises:
        OSError: If the file cannot be written, for example on a full disk. ``path`` then keeps its
            old content.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        yield part
        _flush(part, os.O_RDWR)
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # "No space left on device" does not name the file
        raise
    with suppress(OSError):  # not every system can open a folder to flush the rename
        _flush(path.parent, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
