"""A bounded cache of remote files, shared by the processes of a node."""

import hashlib
import os
import random
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from mmvidformer.storage.files import download, file_status, is_remote, read_range

FOLDER, GIGABYTES = "MMVIDFORMER_CACHE", "MMVIDFORMER_CACHE_GB"  # environment variables
DEFAULT_FOLDER, DEFAULT_GIGABYTES = "~/.cache/mmvidformer/files", "10"
TRIM_EVERY = 64  # files that a process writes, in the mean, before it looks at the size


class NodeCache:
    """A folder of files, of which those that were not read for longest are deleted.

    All processes of a node share it. Its size is looked at after every 64 writes of a process, in
    the mean, so it may be larger for a while.

    Args:
        folder: The folder.
        limit: Bytes; 0: nothing is kept.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit

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
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
        # The draws of the samples must not change.
        if random.SystemRandom().randrange(TRIM_EVERY) == 0:
            self.trim()

    def trim(self) -> None:
        """Delete files until nine tenths of the limit are left."""
        files = []
        for path in self.folder.glob("*/*"):
            with suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in sorted(files):
            path.unlink(missing_ok=True)
            total -= size
            if total <= 0.9 * self.limit:
                break

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / digest[:2] / digest


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

    Raises:
        OSError: As ``read_file``, or if the disk is full.
    """
    if not is_remote(path):
        return Path(path)
    status = file_status(path)
    digest = hashlib.sha256(f"{path} {status.version}".encode()).hexdigest()
    target = node_cache().folder.parent / "copies" / digest / path.rpartition("/")[2]
    if not target.is_file() or target.stat().st_size != status.size:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
        try:
            download(path, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return target


def node_cache() -> NodeCache:
    """Return the cache of this node, which the environment sets."""
    folder = os.environ.get(FOLDER, DEFAULT_FOLDER)
    return _node_cache(folder, os.environ.get(GIGABYTES, DEFAULT_GIGABYTES))


@lru_cache
def _node_cache(folder: str, gigabytes: str) -> NodeCache:
    try:
        limit = int(float(gigabytes) * 1e9)
    except ValueError as error:
        raise ValueError(f"{GIGABYTES} must be a number, got {gigabytes!r}") from error
    return NodeCache(Path(folder).expanduser() / "ranges", limit)
