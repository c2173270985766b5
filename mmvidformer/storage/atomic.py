"""Atomic file writes."""

import errno
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from mmvidformer.errors import FileThere
from mmvidformer.storage.targets import is_device

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of writing that name no file


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; then flush it to disk and rename it to ``path``.

    If the process or the machine dies at any moment, ``path`` holds either its old content or the
    new one. The temporary name is random, since processes on other machines may write the same
    file.

    Args:
        path: File to write. An existing file is replaced, that of a link in its own place, and
            missing folders are made. A pipe or another device is written as it is.

    Raises:
        OSError: If the file cannot be written, for example on a full disk. ``path`` then keeps its
            old content.
    """
    if is_device(path):
        yield Path(path)
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{uuid.uuid4().hex[:12]}.part")  # a name may be as long as can be
    try:
        yield part
        _flush(part, os.O_RDWR)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        # "No space left on device" names no file, and nobody knows the other name.
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every system can open a folder to flush the rename
        _flush(path.parent, os.O_RDONLY)


@contextmanager
def open_rows(path: str | Path, force: bool = False) -> Iterator[TextIO]:
    """Open a new text file of rows, each of which is on the disk's side when it is written.

    Another file of this name stays until all rows are written; until then they are in ``path`` with
    ``.part`` at its end. That is where they are found, as a message says, if the run is stopped.

    Args:
        path: File to write; missing folders are made. A pipe or another device is written as it is.
        force: Whether another file may be replaced.

    Raises:
        FileExistsError: If there is another file, or one with ``.part``: of a run that was stopped,
            or is still writing.
    """
    if is_device(path):
        with open(path, "w", 1, encoding="utf-8", newline="") as file:
            yield file
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    is_old = force and path.exists()
    part = path.with_name(f"{path.name}.part") if is_old else path
    try:
        file = open(part, "x", 1, encoding="utf-8", newline="")
    except FileExistsError as error:
        what = ", of a run that was stopped or still writes" if is_old else ""
        raise FileThere(f"{part} exists already{what}") from error
    try:
        with file:
            yield file
    except BaseException as error:
        print(f"{path}: the rows so far are in {part}", file=sys.stderr)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            raise OSError(error.errno, error.strerror, str(part)) from error
        raise
    if is_old:
        os.replace(part, path)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
