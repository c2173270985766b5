"""Results with which the same command goes on after it was stopped."""

import errno
import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mmvidformer.errors import FileThere
from mmvidformer.storage.errors import refuse
from mmvidformer.storage.files import exists, is_remote, join, read_file, write_file
from mmvidformer.storage.lease import lease

try:
    import fcntl
except ImportError:  # Windows, where nothing tells of another process
    fcntl = None

HELD: set[int] = set()  # open files of the results that this process holds
SETTINGS, FAILED = "_settings.json", "_failed.csv"  # readers of tables leave out names with _


class ResumingTable(AbstractContextManager):
    """Results that one process holds, all of the same settings; a context manager.

    A subclass counts what is there (``_read``), and its run goes on after it.

    Args:
        results: A folder, an address, or a file.
        settings: What the results depend on.
        record: File of the settings of the run that began; default: one in the folder.

    Raises:
        FileExistsError: If the results are of other or unknown settings, or another process writes.
        OSError: If they cannot be written.
        UserError: If the record is damaged; and as ``_read``.
    """

    def __init__(
        self, results: str | Path, settings: Mapping[str, Any], record: str | Path | None = None
    ) -> None:
        with ExitStack() as files:
            files.enter_context(hold(results, is_folder=record is None))
            has_results = self._read() or record is None and exists(join(results, FAILED))
            check_settings(results, settings, has_results, record)  # last, as it writes
            self._files = files.pop_all()

    @abstractmethod
    def _read(self) -> bool:
        """Take note of what earlier runs wrote; return whether there is anything."""

    def __exit__(self, *error: object) -> None:
        self._files.close()


def check_settings(
    results: str | Path,
    settings: Mapping[str, Any],
    has_results: bool,
    record: str | Path | None = None,
) -> None:
    """Record the settings of results that begin, or compare them with those of old ones.

    Args:
        results: A folder, or a table.
        settings: What the results depend on.
        has_results: Whether there are results.
        record: File of the settings; default: one in the folder.

    Raises:
        FileExistsError: If they differ, or there are results without settings.
        UserError: If the record is damaged.
    """
    record = record or join(results, SETTINGS)
    settings = json.loads(json.dumps(dict(settings)))  # lists for tuples
    if not exists(record):
        if has_results:
            what = f"{results} has results of unknown settings, without {record}"
            raise FileThere(f"{what}; use another place")
        write_file(record, f"{json.dumps(settings, indent=1)}\n".encode())
        return
    content = read_file(record)
    with refuse(f"{record} is damaged; use another place"):
        recorded = dict(json.loads(content))
    unknown = object()
    names = sorted({*recorded, *settings})
    differ = [name for name in names if recorded.get(name, unknown) != settings.get(name, unknown)]
    if differ:
        what = f"{results} has results of other settings: {', '.join(differ)} ({record})"
        raise FileThere(f"{what}; use another place")


@contextmanager
def hold(results: str | Path, is_folder: bool = True) -> Iterator[None]:
    """Make a folder or a file, and keep other processes from writing there.

    Of an address, this is as good as ``lease``.

    Raises:
        FileExistsError: If another one does.
        PermissionError: If it cannot be written.
        StorageError: If storage does not answer.
    """
    if is_remote(results):
        with lease(str(results)):
            yield
        return
    if fcntl is None:
        yield
        return
    folder = Path(results) if is_folder else Path(results).parent
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written", str(folder))
    handle = os.open(results, os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        text = f"another process writes to {results}; wait for it, or use another place"
        raise FileThere(text) from error
    except OSError:  # mounted storage that knows none
        pass
    HELD.add(handle)
    try:
        yield
    finally:
        if handle in HELD:  # it is not in a process that was forked meanwhile
            HELD.remove(handle)
            os.close(handle)


def _leave_to_parent() -> None:
    """Close what the parent of a forked process holds: a worker that outlives it would keep it."""
    for handle in HELD:
        os.close(handle)
    HELD.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_to_parent)
