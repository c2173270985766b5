"""Reading many files in parallel, to find the bad ones."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait

from tqdm import tqdm

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_frames, first_line, with_suffix
from mmvidformer.datasets.decoding.readers import open_video

# Not fork: while this process has other threads, the new one could wait for ever.
_PROCESSES = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")


def find_faults(
    read: Callable[..., object],
    files: Sequence[tuple],
    workers: int = 4,
    time_limit: float = 60.0,
) -> dict[str, str]:
    """Read files in parallel processes, with a progress bar.

    A process that crashes or takes too long is replaced, while the others go on. All errors are
    faults of the file.

    Args:
        read: Function that reads a file, such as ``read_to_end``; pickle must find it by its name.
        files: Arguments of ``read`` for each file, its path first.
        workers: Number of processes. With 0 this process reads, without a time limit.
        time_limit: Seconds for one file.

    Returns:
        The fault of each bad file by its path.
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

    Args:
        path: Video, or folder of frames.
        total_frames: Number of frames of a folder; None for a video.
        filename_tmpl: Names of a folder's frames.
        first_only: Whether to decode only the first frame of a video.

    Raises:
        BadVideo: If a frame is missing or damaged.
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
    todo = iter(files)
    busy: list[_Reader] = []
    idle: list[_Reader] = []
    try:
        while True:
            for file in islice(todo, workers - len(busy)):
                busy.append(idle.pop() if idle else _Reader(read))
                busy[-1].start(file, time_limit)
            if not busy:
                return
            first = min(reader.deadline for reader in busy)
            ready = wait([reader.pipe for reader in busy], max(0, first - time.monotonic()))
            now = time.monotonic()
            for reader in [one for one in busy if one.pipe in ready or one.deadline <= now]:
                fault = f"took longer than {time_limit:g} s and was killed"
                if reader.pipe in ready:
                    fault = reader.result()
                else:
                    reader.stop()
                busy.remove(reader)
                if reader.process.is_alive():
                    idle.append(reader)
                yield reader.file[0], fault
    finally:
        for reader in busy + idle:
            reader.stop()


class _Reader:
    """A process that reads one file after another."""

    def __init__(self, read: Callable[..., object]) -> None:
        self.pipe, end = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_serve, args=(read, end), daemon=True)
        self.process.start()
        end.close()
        self.pipe.recv()  # imports take longer than some time limits

    def start(self, file: tuple, time_limit: float) -> None:
        self.file, self.deadline = file, time.monotonic() + time_limit
        self.pipe.send(file)

    def result(self) -> str | None:
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            end = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return f"crashed its process ({end})"

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(read: Callable[..., object], pipe: Connection) -> None:
    """Answer each file that comes through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this one
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            pipe.send(_fault(read, pipe.recv()))
