"""Files that are either whole or not there."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from mmengine.fileio import LocalBackend, register_backend

# How the names of files that are being written begin and end.
PART = (".", ".part")


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under another name in the same folder, and rename it when it is on the disk.

    Whenever the process or the machine dies, ``path`` is what it was before or what it is to be.

    Args:
        path: File to write; what it held is replaced.
        write: Called with the open file.

    Raises:
        OSError: If it cannot be written, as on a full disk; ``path`` is then what it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(PART[1], f"{PART[0]}{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())  # mkstemp lets the owner alone read it
        os.replace(part, path)
    except BaseException as error:
        Path(part).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # the system's own "no space left" names no file
        raise
    _sync_folder(path.parent)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Bring the rename itself to the disk; folders cannot be opened on every system."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_parts(folder: str | Path) -> list[str]:
    """Delete what writers that were killed left in a folder; gives the names."""
    found = sorted(Path(folder).glob(f"{PART[0]}*{PART[1]}"))
    for path in found:
        path.unlink(missing_ok=True)
    return [path.name for path in found]


class AtomicBackend(LocalBackend):
    """MMEngine's local files, written by ``write_atomically``."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write bytes."""
        write_atomically(filepath, lambda file: file.write(obj))

    def put_text(self, obj: str, filepath: str | Path, encoding: str = "utf-8") -> None:
        """Write text."""
        self.put(obj.encode(encoding), filepath)


def use_atomic_files() -> None:
    """Have all local files that MMEngine writes by a backend written by ``AtomicBackend``.

    Checkpoints go several ways (runner, strategies, the published one), some of which take no
    backend; so it takes the place of the one for plain paths.
    """
    register_backend("local", AtomicBackend, force=True, prefixes="")
