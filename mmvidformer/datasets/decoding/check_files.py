"""Reading many files in parallel, to find the bad ones."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tqdm import tqdm

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_frames, first_line, with_suffix
from mmvidformer.datasets.decoding.readers import open_video

# Not fork: while this process has other threads, the new one could wait for ever.
_PROCESSES = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")


def find_faults(
    read: Callable[..., object], files: Sequence[tuple], workers: int = 4, time_limit: float = 60.0
) -> dict[str, str]:
    """Read files in parallel processes, and return the faults of the bad ones by their paths.

    A process that crashes or takes too long is replaced, while the others go on. All errors are
    faults of the file.

    Args:
        read: Function that reads a file, such as ``read_to_end``; pickle must find it by its name.
        files: Arguments of ``read`` for each file, its path first.
        workers: Number of processes. With 0 this process reads, without a time limit.
        time_limit: Seconds for one file.
    """
    faults: dict[str, str] = {}
    results = ((file[0], _fault(read, file)) for file in files)
    if workers > 0:
        results = _read_in_processes(read, files, workers, time_limit)
    with closing(results):
        bar = tqdm(results, total=len(files), unit="file", disable=None)
        for path, fault in bar:
            if fault is not None:
                faults[path] = fault
                bar.set_postfix(bad=len(faults))
    return faults


def read_to_end(
    path: str,
    total_frames: int | None = None,
    filename_tmpl: str = "img_{:05}.jpg",
    first_only: bool = False,
) -> None:
    """Decode all frames of a video with PyAV, or only the first, or those of a folder.

    ``path`` is a folder of frames if ``total_frames`` is given. Raises a ``BadVideo`` if a frame is
    missing or damaged.
    """
    if total_frames is None:
        reader = open_video(with_suffix(path), short_side=1)  # keeps a pixel of each frame
        reader.get_batch(range(1 if first_only else len(reader)))
        return
    info = {"frame_dir": path, "total_frames": total_frames, "filename_tmpl": filename_tmpl}
    fault = fault_of_frames(info)
    if fault is not None:
        raise BadVideo(path, fault)


def _fault(read: Callable[..., object], file: tuple) -> str | None:
    try:
        read(*file)
    except BadVideo as error:
        return error.reason
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return None


def _read_in_processes(
    read: Callable[..., object], files: Sequence[tuple], workers: int, time_limit: float
) -> Iterator[tuple[str, str | None]]:
    _PROCESSES.set_forkserver_preload([__name__])
    todo, started, idle = iter(files), [], []
    busy: dict[Connection, tuple] = {}  # process, path, deadline
    try:
        while True:
            for file in islice(todo, workers - len(busy)):
                if not idle:
                    idle.append(_start(read))
                    started.append(idle[0][1])
                pipe, process = idle.pop()
                pipe.send(file)
                busy[pipe] = process, file[0], time.monotonic() + time_limit
            if not busy:
                return
            first = min(deadline for _, _, deadline in busy.values())
            ready, now = wait(busy, max(0, first - time.monotonic())), time.monotonic()
            for pipe in [one for one in busy if one in ready or busy[one][2] <= now]:
                process, path, _ = busy.pop(pipe)
                try:
                    if pipe not in ready:
                        raise TimeoutError
                    fault = pipe.recv()
                    idle.append((pipe, process))
                except TimeoutError:
                    process.kill()
                    fault = f"took longer than {time_limit:g} s and was killed"
                except (EOFError, OSError):
                    process.join()
                    code = process.exitcode
                    end = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                    fault = f"crashed its process ({end})"
                yield path, fault
    finally:
        for process in started:
            process.kill()
            process.join()


def _start(read: Callable[..., object]) -> tuple[Connection, BaseProcess]:
    """Start a process that reads the files that it gets through a pipe."""
    pipe, end = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=_serve, args=(read, end), daemon=True)
    process.start()
    end.close()
    pipe.recv()  # imports take longer than some time limits
    return pipe, process


def _serve(read: Callable[..., object], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this one
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            pipe.send(_fault(read, pipe.recv()))
