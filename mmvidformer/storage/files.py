"""Reading and writing of files by path or address, in tries with growing pauses."""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.errors import StorageError, refuse

# Addresses that fsspec reads; the drivers of all but the first three are packages of their own.
PROTOCOLS = ("http", "https", "memory", "s3", "gs", "gcs", "az", "abfs", "hdfs", "sftp")
EXTRAS = {"http": "s3", "https": "s3", "s3": "s3"}  # extras of this package with their drivers
PAUSES = (1.0, 4.0)  # seconds before the second and the third try
TIME_LIMIT, LEAST_SPEED = 30.0, 1e6  # seconds of a try, and one more for so many bytes
# What the storage says of a file itself, so that another try is of no use.
ANSWERS = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
# What drivers call the tag of a file and the time of its last change.
TAGS = ("ETag", "etag", "LastModified", "Last-Modified", "last_modified", "mtime", "created")
Result = TypeVar("Result")


class FileStatus(NamedTuple):
    """What is known of a file without reading it.

    Attributes:
        size: Bytes.
        version: Changes with the content: size and time, and the tag if storage has one.
    """

    size: int
    version: str


def is_remote(path: str | Path) -> bool:
    """Whether a path is an address in object storage or on the web."""
    scheme, separator, _ = str(path).partition("://")
    return bool(separator) and scheme in PROTOCOLS


def join(folder: str | Path, *names: str) -> str:
    """Join the parts of a path or an address."""
    if is_remote(folder):
        return "/".join([str(folder).rstrip("/"), *names])
    return os.path.join(folder, *names)


def split_path(path: str) -> tuple[str, str]:
    """Split a path or an address into folder and name."""
    if not is_remote(path):
        return os.path.split(path)
    folder, _, name = path.rpartition("/")
    return folder, name


def read_file(path: str | Path) -> bytes:
    """Read a file.

    Raises:
        FileNotFoundError: If there is none.
        StorageError: If remote storage does not answer in three tries, or refuses.
    """
    if not is_remote(path):
        return Path(path).read_bytes()
    size = file_size(path)
    return read_range(path, 0, size)


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file with a JSON object, which a ``UserError`` says if it is damaged."""
    content = read_file(path)
    with refuse(f"{path} must have a JSON object", with_reason=True):
        loaded = json.loads(content)
    if not isinstance(loaded, dict):
        raise UserError(f"{path} must have a JSON object, got a {type(loaded).__name__}")
    return loaded


def read_range(path: str | Path, start: int, size: int) -> bytes:
    """Read some bytes of a file; see ``read_file``.

    Raises:
        UserError: If a local file is too short.
    """
    if is_remote(path):
        return try_thrice(path, lambda: _read_remote(str(path), start, size))
    with open(path, "rb", buffering=0) as file:
        content = os.pread(file.fileno(), size, start)
        while 0 < len(content) < size:  # a call reads at most 2 GB
            more = os.pread(file.fileno(), size - len(content), start + len(content))
            if not more:
                break
            content += more
    if len(content) < size:
        raise UserError(f"{path} ends before byte {start + size}")
    return content


def file_status(path: str | Path) -> FileStatus:
    """Return size and version of a file, in one request if it is remote; see ``read_file``."""
    if not is_remote(path):
        local = os.stat(path)
        return FileStatus(local.st_size, f"{local.st_size} {local.st_mtime_ns}")
    address = str(path)
    facts = try_thrice(path, lambda: _call(address, "info"))
    size = facts.get("size")
    if size is None:
        raise StorageError(f"{path}: the server does not say how many bytes it has")
    tags = [str(facts[tag]) for tag in TAGS if facts.get(tag) is not None]
    return FileStatus(int(size), " ".join([str(size), *tags]))


def file_size(path: str | Path) -> int:
    """Return the size of a file in bytes; see ``read_file``."""
    return file_status(path).size


def exists(path: str | Path) -> bool:
    """Whether a file exists."""
    if not is_remote(path):
        return os.path.exists(path)
    try:
        return file_size(path) >= 0
    except FileNotFoundError:
        return False


def list_files(address: str) -> list[str]:
    """List the files below a folder or an address, sorted, by their paths relative to it."""
    if not is_remote(address):
        files = (path for path in Path(address).rglob("*") if path.is_file())
        return sorted(path.relative_to(address).as_posix() for path in files)
    paths = try_thrice(address, lambda: _call(address, "find"))
    folder = _file_system_of(address)._strip_protocol(address)
    prefix = f"{folder.rstrip('/')}/"
    return sorted(path.removeprefix(prefix) for path in paths if path.startswith(prefix))


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file, which appears as a whole; see ``read_file``."""
    if is_remote(path):
        address, size = str(path), len(content)
        try_thrice(path, lambda: _call(address, "pipe_file", address, content, size=size))
        return
    with write_atomically(path) as part:
        part.write_bytes(content)


@contextmanager
def write_to(path: str | Path) -> Iterator[Path]:
    """Yield a local path to write to; the file is then at its place as a whole.

    Raises:
        OSError: If it cannot be written. Its place then keeps what it had.
        StorageError: If remote storage does not answer.
    """
    if not is_remote(path):
        with write_atomically(path) as part:
            yield part
        return
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, split_path(str(path))[1])
        yield part
        upload(part, str(path))


def remove(path: str | Path) -> None:
    """Delete a file, if it is there; see ``read_file``."""
    if not is_remote(path):
        Path(path).unlink(missing_ok=True)
    elif exists(path):
        try_thrice(path, lambda: _call(str(path), "rm_file"))


def upload(file: Path, address: str) -> None:
    """Write a local file to remote storage, where it appears as a whole."""
    size = os.path.getsize(file)
    try_thrice(address, lambda: _call(address, "put_file", str(file), address, size=size))


def download(address: str, file: Path) -> None:
    """Read a remote file into a local one, by parts."""
    size, part = file_size(address), 1 << 26
    with file.open("wb") as target:
        for start in range(0, size, part):
            target.write(read_range(address, start, min(part, size - start)))


def try_thrice(path: str | Path, read: Callable[[], Result]) -> Result:
    """Call a function again after 1 and 4 seconds if remote storage fails.

    Raises:
        FileNotFoundError: If the file does not exist, at once.
        StorageError: If the last try fails too, or access is denied, at once.
    """
    for pause in (*PAUSES, None):
        try:
            return read()
        except PermissionError as error:
            raise StorageError(f"{path}: access is denied ({_reason(error)})") from error
        except ImportError as error:
            raise StorageError(_missing_driver(path)) from error
        except Exception as error:  # drivers have errors of their own
            if isinstance(error, ANSWERS) and not _hides_fault(error):
                raise MissingFile(f"{path} does not exist, or is no file") from error
            if pause is None:
                tries = f"{len(PAUSES) + 1} tries failed"
                raise StorageError(f"{path}: {tries}, the last by {_reason(error)}") from error
        time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _hides_fault(error: BaseException) -> bool:
    """Whether fsspec says of a file on the web that it does not exist where a connection broke."""
    cause = error.__cause__
    is_of_web = type(cause).__module__.partition(".")[0] == "aiohttp"
    is_answer = getattr(cause, "status", None) in (404, 410)
    return isinstance(cause, TimeoutError) or (is_of_web and not is_answer)


def _reason(error: BaseException) -> str:
    if _hides_fault(error):
        return _reason(error.__cause__)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _missing_driver(path: str | Path) -> str:
    extra = EXTRAS.get(str(path).partition("://")[0])
    what = f"pip install 'mmvidformer[{extra}]'" if extra else "the driver of fsspec for it"
    return f"{path} needs {what}"


def _read_remote(address: str, start: int, size: int) -> bytes:
    if not size:
        return b""
    content = _call(address, "cat_file", start=start, end=start + size, size=size)
    if len(content) >= start + size > size:  # a web server that knows no ranges gives all
        content = content[start : start + size]
    if len(content) != size:
        raise OSError(f"got {len(content)} of {size} bytes")
    return content


def _call(address: str, method: str, *arguments: Any, size: int = 0, **options: int) -> Any:
    """Call a method of the file system of an address, for a limited time.

    Args:
        address: The address.
        method: Name of the method.
        *arguments: Its arguments; default: the address.
        size: Bytes that are read or written.
        **options: Its keyword arguments.
    """
    files, arguments = _file_system_of(address), arguments or (address,)
    limit = TIME_LIMIT + size / LEAST_SPEED
    if method == "info":  # another process may have written
        files.invalidate_cache()
    if not files.async_impl:
        return getattr(files, method)(*arguments, **options)
    from fsspec.asyn import sync

    return sync(files.loop, getattr(files, f"_{method}"), *arguments, timeout=limit, **options)


def _file_system_of(address: str) -> Any:
    return _file_system(re.match(r"[^/]+", address).group(), os.getpid())


@lru_cache
def _file_system(scheme: str, process: int) -> Any:
    """Return the file system of a scheme, such as ``'s3:'``; connections belong to a process."""
    import fsspec

    name = scheme.rstrip(":")
    options: dict[str, Any] = {"skip_instance_cache": True}
    if name in ("s3", "s3a"):
        # Tries are made here.
        limits = dict(connect_timeout=10, read_timeout=TIME_LIMIT, retries=dict(max_attempts=0))
        options["config_kwargs"] = limits
    files = fsspec.filesystem(name, **options)
    if hasattr(files, "retries"):
        files.retries = 1
    return files
