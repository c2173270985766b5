"""Atomic file writes."""

import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from mmvidformer.errors import CannotWrite, FileThere, UserError
from mmvidformer.storage.targets import is_device

MORE = 1 << 16  # bytes, for which a full disk has no space


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
        CannotWrite: If the file cannot be written, for example on a full disk. ``path`` then keeps
            its old content.
    """
    if is_device(path):
        with name_errors(Path(path), Path(path)):
            yield Path(path)
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{uuid.uuid4().hex[:12]}.part")  # a name may be as long as can be
    try:
        with name_errors(path, part), _full_disk_shown(part):
            yield part
            _flush(part, os.O_RDWR)
            os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every system can open a folder to flush the rename
        _flush(path.parent, os.O_RDONLY)


@contextmanager
def write_together(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files then replace those of ``folder``, when all are written.

    Files that belong together are thus all old or all new, unless the machine dies in the moment in
    which they are renamed. Other files of the folder stay.

    Raises:
        CannotWrite: See ``write_atomically``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".", suffix=".part") as parts:
        with name_errors(folder, Path(parts)), _full_disk_shown(Path(parts, "more")):
            yield Path(parts)
            files = [path for path in Path(parts).rglob("*") if path.is_file()]
            for path in files:
                _flush(path, os.O_RDWR)
        for path in files:
            target = folder / path.relative_to(parts)
            if target.is_symlink():
                with write_atomically(target) as part:
                    shutil.copyfile(path, part)
            else:
                os.replace(path, target)


@contextmanager
def name_errors(path: Path, part: Path) -> Iterator[None]:
    """Raise ``CannotWrite`` of ``path`` for errors of the system that name no file, or ``part``.

    "No space left on device" names none, and nobody knows the other name.
    """
    try:
        yield
    except OSError as error:
        name = str(error.filename or part)
        if error.errno is None or not name.startswith(str(part)):
            raise
        place = f"{path}{name.removeprefix(str(part))}"
        raise CannotWrite(error.errno, error.strerror, place) from error


@contextmanager
def _full_disk_shown(part: Path) -> Iterator[None]:
    """Raise the system's error of a full disk, for which libraries have errors of their own."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError | UserError):
            with part.open("ab") as file:
                file.write(bytes(MORE))
        raise


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
        with (
            name_errors(Path(path), Path(path)),
            open(path, "w", 1, encoding="utf-8", newline="") as file,
        ):
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
        with name_errors(part, part), file:
            yield file
    except BaseException:
        print(f"{path}: the rows so far are in {part}", file=sys.stderr)
        raise
    if is_old:
        os.replace(part, path)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
