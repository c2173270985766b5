"""Results in remote storage, which has no locks: a file among them says who writes."""

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from mmvidformer.errors import FileThere
from mmvidformer.storage.errors import StorageError
from mmvidformer.storage.files import join, read_file, remove, write_file

WRITER = "_writer.json"  # readers of tables leave out names with _
LEASE = 120.0  # seconds after which a writer that says nothing more is taken for dead
RENEWAL = 30.0  # seconds between its words
SETTLING = 1.0  # seconds in which others that began at the same moment have written theirs


@contextmanager
def lease(folder: str) -> Iterator[None]:
    """Keep other processes from writing to an address, as long as they ask, too.

    The file ``_writer.json`` names the process and is renewed while it runs. One that was killed
    holds the address for up to two minutes more, unless it ran on this machine. Times are those of
    the clocks of the machines. Of processes that begin within a second, the last one stays.

    Raises:
        FileExistsError: If another process writes there.
        StorageError: If storage does not answer.
    """
    file = join(folder, WRITER)
    _check_free(folder, file)
    name = dict(host=socket.gethostname(), process=os.getpid(), token=uuid.uuid4().hex)
    _write(file, name)
    time.sleep(SETTLING)
    _check_free(folder, file, name["token"])
    has_ended = Event()
    renewer = Thread(target=_renew, args=(file, name, has_ended), daemon=True)
    renewer.start()
    try:
        yield
    finally:
        has_ended.set()
        renewer.join()
        with suppress(StorageError):  # which the results were not written to, either
            if _read(file).get("token") == name["token"]:
                remove(file)


def _check_free(folder: str, file: str, token: str | None = None) -> None:
    """Raise a ``FileExistsError`` if a file names a process other than that of the token."""
    writer = _read(file)
    if not writer or writer.get("token") == token or _is_dead(writer):
        return
    who = f"process {writer.get('process')} on {writer.get('host')}"
    raise FileThere(
        f"{who} writes to {folder}; wait for it, or use another place (it is taken for dead "
        f"{LEASE:g} s after its last change of {file})"
    )


def _is_dead(writer: dict[str, Any]) -> bool:
    """Whether a process has ended, as far as can be told."""
    # On Windows, signal 0 would be Ctrl-C.
    if os.name == "posix" and writer.get("host") == socket.gethostname():
        try:
            os.kill(int(writer["process"]), 0)  # looks for it only
        except ProcessLookupError:
            return True
        except (KeyError, TypeError, ValueError, OSError):
            pass
    # One whose clock is ahead may live: it is never taken for dead too early.
    return time.time() - writer["time"] > LEASE


def _renew(file: str, name: dict[str, Any], has_ended: Event) -> None:
    """Write the file again and again."""
    while not has_ended.wait(RENEWAL):
        with suppress(StorageError):  # which may pass
            _write(file, name)


def _write(file: str, name: dict[str, Any]) -> None:
    write_file(file, json.dumps(dict(name, time=time.time())).encode())


def _read(file: str) -> dict[str, Any]:
    """Return what a file says of a writer; nothing if it is not there or damaged."""
    try:
        writer = json.loads(read_file(file))
    except (FileNotFoundError, ValueError):
        return {}
    has_time = isinstance(writer, dict) and isinstance(writer.get("time"), int | float)
    return writer if has_time else {}
