"""What a command may write: nothing that it reads, nothing twice, and no file that is there."""

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mmvidformer.errors import FileThere, UserError

Target = tuple[str, str | Path]  # what is written, such as an option or a video, and its file
Identity = tuple[int, int] | str


def check_targets(
    targets: Iterable[Target], inputs: Iterable[object] = (), force: bool = False
) -> None:
    """Raise an error unless files may be written, before the work begins.

    Args:
        targets: The files.
        inputs: What the command reads; names of no local file are left out. No option lets one be
            written over, whatever its spelling, or if a link leads to it.
        force: Whether other files may be replaced that are there already.

    Raises:
        FileExistsError: If a file is there already.
        OSError: If a folder cannot be written.
        UserError: If a file is an input or a folder, or two targets are one file.
    """
    targets = [(what, Path(path)) for what, path in targets]
    check_distinct(targets)
    read = {identity_of(str(name)) for name in inputs if name and os.path.isfile(str(name))}
    for what, path in targets:
        if path.is_dir():
            raise UserError(f"{what}: {path} is a folder")
        if identity_of(path) in read:
            raise UserError(f"{what} would be written over {path}, which is read; name another")
        if path.is_file() and not force:
            raise FileThere(f"{path} exists already; --force replaces it")
    for folder in {_existing_folder(path) for _, path in targets if not is_device(path)}:
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise OSError(error.errno, f"cannot be written: {reason}", str(folder)) from error


def check_distinct(targets: Iterable[Target]) -> None:
    """Raise a ``UserError`` if two results would be one file."""
    owners: dict[Identity, str] = {}
    for what, path in targets:
        if is_device(path):
            continue
        other = owners.setdefault(identity_of(path), what)
        if other != what:
            raise UserError(f"{other} and {what} would both be written to {path}")


def is_device(path: str | Path) -> bool:
    """Whether a path is a pipe, a terminal or /dev/null, which keeps nothing to write over."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def identity_of(path: str | Path) -> Identity:
    """Return what tells a file from others; it has several names through links, or without case."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _existing_folder(path: Path) -> Path:
    """Return the folder of a file, or the one above that is there."""
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists():
        folder = folder.parent
    return folder
