import signal
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from threading import Lock

from tqdm import tqdm

from mmvidformer.video.containers import open_container, video_stream
from mmvidformer.video.errors import first_line, with_suffix

# Not fork: while this process has other threads, the new one could wait for ever.
_PROCESSES = get_context("forkserver")
_LOCK = Lock()  # Two threads must not ask for the exit status of the same process.
START_LIMIT = 600  # seconds for its imports, which take longer than some limits for a file


def find_faults(
    read: Callable[..., object], files: Sequence[tuple], workers: int = 4, time_limit: float = 60.0
) -> dict[str, str]:
    """Read each file in a process of its own, and return the faults of the bad ones by their paths.

    Errors and crashes are faults, and so is taking too long, for which a process is killed.

    Args:
        read: Function that reads a file, such as ``read_to_end``; pickle must find it by its name.
            Each process imports its module, which should take little time.
        files: Arguments of ``read`` for each file, its path first.
        workers: Number of processes at a time.
        time_limit: Seconds for one file.
    """
    _PROCESSES.set_forkserver_preload([__name__])
    faults: dict[str, str] = {}
    with ThreadPool(workers) as pool:
        results = pool.imap_unordered(partial(_find_fault, read, time_limit), files)
        bar = tqdm(results, total=len(files), unit="file", disable=None)
        for path, fault in bar:
            if fault is not None:
                faults[path] = fault
                bar.set_postfix(bad=len(faults))
    return faults


def read_to_end(path: str, first_only: bool = False) -> None:
    """Decode all frames of a video with PyAV, or only the first one.

    Raises an error if a frame is damaged, there is none, or they differ in size.
    """
    with open_container(with_suffix(path)) as container:
        frames = islice(container.decode(video_stream(container)), 1 if first_only else None)
        sizes = {(frame.height, frame.width) for frame in frames}
    if len(sizes) != 1:
        raise ValueError(f"its frames must have one size, got {sorted(sizes)}")


def _find_fault(
    read: Callable[..., object], time_limit: float, file: tuple
) -> tuple[str, str | None]:
    """Read a file in a new process, and return its path and what is wrong with it."""
    pipe, end = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_send_fault, args=(end, read, file), daemon=True)
    with _LOCK:
        process.start()
    end.close()
    try:
        if not pipe.poll(START_LIMIT):
            raise TimeoutError(f"a process to read {file[0]} did not start in {START_LIMIT} s")
        pipe.recv()
        if not pipe.poll(time_limit):
            return file[0], f"took longer than {time_limit:g} s and was killed"
        return file[0], pipe.recv()
    except EOFError:
        with _LOCK:
            process.join(time_limit)
        code = process.exitcode
        if code is None:
            return file[0], f"its process did not end in {time_limit:g} s and was killed"
        reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return file[0], f"crashed its process ({reason})"
    finally:
        with _LOCK:
            process.kill()
            process.join()


def _send_fault(end: Connection, read: Callable[..., object], file: tuple) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this one
    end.send("ready")
    fault = None
    try:
        read(*file)
    except Exception as error:
        fault = f"{type(error).__name__}: {first_line(error)}"
    end.send(fault)
