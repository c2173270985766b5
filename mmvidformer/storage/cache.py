"""A cache of remote files of a limited size, shared by the processes of a node."""

import hashlib
import os
import random
import time
import uuid
from contextlib import suppress
from functools import lru_cache
from multiprocessing import util
from pathlib import Path

from mmvidformer.errors import UserError
from mmvidformer.storage.files import FileStatus, download, file_status, is_remote, read_range

FOLDER, GIGABYTES = "MMVIDFORMER_CACHE", "MMVIDFORMER_CACHE_GB"  # environment variables
DEFAULT_FOLDER, DEFAULT_GIGABYTES = "~/.cache/mmvidformer/files", "10"
TRIM_EVERY = 64  # files that a process writes, in the mean, before it looks at the size
COPIES, RANGES = "copies", "ranges"
IN_USE = 60.0  # seconds for which a copy is not deleted, nor a file that is being written


class NodeCache:
    """A folder of parts and copies of files; those that were not read for longest are deleted.

    All processes of a node share it. Its size is looked at after each copy, and after every 64
    parts of a process, in the mean. So it may be larger for a while, also by the copies of the last
    minute, which may be in use.

    Args:
        folder: The folder.
        limit: Bytes. What is larger is not kept: copies until the process ends that has made them.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._copies: dict[str, Path] = {}  # of this process: the last one of each address

    def read(self, key: str, size: int) -> bytes | None:
        """Return what is kept under a key; None if it is not there, or has another size."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            os.utime(path)  # not all file systems note when a file was read
        except OSError:
            return None
        return content if len(content) == size else None

    def write(self, key: str, content: bytes) -> None:
        """Keep bytes; a full disk is no error."""
        if len(content) > self.limit:
            return
        path = self._path(key)
        part = _part_of(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
        # The draws of the samples must not change.
        if random.SystemRandom().randrange(TRIM_EVERY) == 0:
            self.trim()

    def copy(self, address: str, status: FileStatus) -> Path:
        """Return a copy of a remote file, which is fetched if there is none of its version."""
        digest = hashlib.sha256(f"{address} {status.version}".encode()).hexdigest()
        target = self.folder / COPIES / digest / address.rpartition("/")[2]
        with suppress(OSError):
            if target.stat().st_size == status.size:
                os.utime(target)
                return target
        target.parent.mkdir(parents=True, exist_ok=True)
        part = _part_of(target)
        try:
            download(address, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        older = self._copies.get(address)
        if older not in (None, target):
            _remove(older)
        self._copies[address] = target
        if status.size > self.limit:
            util.Finalize(None, _remove, [target], exitpriority=0)
        self.trim()
        return target

    def trim(self) -> None:
        """Delete files until nine tenths of the limit are left, but none that was just copied."""
        files = []
        for path in self.folder.glob("*/*/*"):
            with suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        now = time.time()
        for changed, size, path in sorted(files):
            is_copied = path.name.startswith(".") or path.parts[-3] == COPIES
            if is_copied and now - changed < IN_USE:
                continue
            _remove(path)
            total -= size
            if total <= 0.9 * self.limit:
                break

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / RANGES / digest[:2] / digest


def _part_of(path: Path) -> Path:
    """Return where a file is written before it is complete."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")


def _remove(path: Path) -> None:
    with suppress(OSError):  # another process may delete it, or write to its folder
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def read_cached(path: str, start: int, size: int, version: str) -> bytes:
    """Read some bytes of a file, through the cache if it is remote.

    Args:
        path: Path or address.
        start: First byte.
        size: Number of bytes.
        version: Changes with the content of the file.

    Raises:
        OSError: As ``read_range``.
    """
    if not is_remote(path):
        return read_range(path, start, size)
    cache, key = node_cache(), f"{path} {start} {size} {version}"
    content = cache.read(key, size)
    if content is None:
        content = read_range(path, start, size)
        cache.write(key, content)
    return content


def local_copy(path: str) -> Path:
    """Return a local file, or the copy of a remote one, which is fetched when it has changed.

    The copy is open to deletion (``NodeCache``): open it now, or ask again.

    Raises:
        OSError: As ``read_file``, or if the disk is full.
    """
    if not is_remote(path):
        return Path(path)
    return node_cache().copy(path, file_status(path))


def node_cache() -> NodeCache:
    """Return the cache of this node, which the environment sets."""
    folder = os.environ.get(FOLDER, DEFAULT_FOLDER)
    return _node_cache(folder, os.environ.get(GIGABYTES, DEFAULT_GIGABYTES))


@lru_cache
def _node_cache(folder: str, gigabytes: str) -> NodeCache:
    try:
        limit = int(float(gigabytes) * 1e9)
    except ValueError as error:
        raise UserError(f"{GIGABYTES} must be a number, got {gigabytes!r}") from error
    return NodeCache(Path(folder).expanduser(), limit)
