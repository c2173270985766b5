"""Reading files in processes that may crash or hang."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Lock

import av
from av import Packet
from av.container import InputContainer
from tqdm import tqdm

from mmvidformer.errors import LostProcess
from mmvidformer.video.containers import (
    decode_packets,
    open_container,
    read_packets,
    video_stream,
)
from mmvidformer.video.errors import NO_FRAME, BadVideo, first_line, with_suffix
from mmvidformer.video.index import index_of
from mmvidformer.video.progress import limit_silence, reading

# Not fork: while this process has other threads, the new one could wait for ever.
_PROCESSES = get_context("forkserver")
_LOCK = Lock()  # Two threads must not ask for the exit status of the same process.
START_LIMIT = 600  # seconds for its imports, which take longer than some limits for a file
FILES_OF_PROCESS = 100  # after which it is replaced, since decoders may leak memory

Read = Callable[..., object]


def find_faults(
    read: Read, files: Sequence[tuple], workers: int = 4, time_limit: float = 60.0
) -> dict[str, str]:
    """Read files in other processes, and return the faults of the bad ones by their paths.

    Errors and crashes are faults, and so is to hang, for which a process is killed.

    Args:
        read: Function that reads a file, such as ``read_to_end``; pickle must find it by its name.
            Each process imports its module, which should take little time.
        files: Arguments of ``read`` for each file, its path first.
        workers: Number of processes.
        time_limit: Seconds in which a file must get on (``note_progress``).

    Raises:
        ChildProcessError: If a process ends before it begins, for which no file is to blame.
    """
    _PROCESSES.set_forkserver_preload([__name__])
    faults: dict[str, str] = {}
    idle: SimpleQueue[_Reader] = SimpleQueue()
    readers = [_Reader(read, time_limit) for _ in range(workers)]
    for reader in readers:
        idle.put(reader)
    with ThreadPool(workers) as pool:
        try:
            results = pool.imap_unordered(partial(_find_fault, idle), files)
            bar = tqdm(results, total=len(files), unit="file", disable=None)
            for path, fault in bar:
                if fault is not None:
                    faults[path] = fault
                    bar.set_postfix(bad=len(faults))
        finally:
            for reader in readers:
                reader.close()
    return faults


def read_to_end(path: str, first_only: bool = False) -> None:
    """Decode all frames of a video with PyAV, or only the first one, and index them.

    Like ``ffmpeg -v error``, it also counts what the decoder reports and conceals. What no decoder
    notices, such as the missing end of a Matroska file, it does not find.

    Raises:
        OSError: If there is no such file.
        BadVideo: If the file cannot be decoded, the decoder reports errors, there is no frame,
            frames differ in size, or their times make no sense.
    """
    path = with_suffix(path)
    with _reported_errors() as reports, open_container(path) as container:
        video_stream(container).codec_context.thread_count = 1
        packets = _forget_until_key(container, path, reports)
        sizes = set()
        for frame in islice(decode_packets(packets, path), 1 if first_only else None):
            sizes.add((frame.height, frame.width))
        codec = video_stream(container).codec_context.name
    if not sizes:
        raise BadVideo(path, NO_FRAME)
    if len(sizes) > 1:
        raise BadVideo(path, f"its frames must have one size, got {sorted(sizes)}")
    errors = [text.strip() for _, name, text in reports if name == codec]
    if errors:
        times = "once" if len(errors) == 1 else f"{len(errors)} times"
        raise BadVideo(path, f"its decoder reports damage {times}, first: {errors[0]}")
    if not first_only:
        index_of(path)


@contextmanager
def _reported_errors() -> Iterator[list[tuple[int, str, str]]]:
    """Collect what FFmpeg reports in this thread: level, who reports it, and text."""
    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture(local=True) as reports:
            yield reports
    finally:
        av.logging.set_level(level)


def _forget_until_key(container: InputContainer, path: str, reports: list) -> Iterator[Packet]:
    """Yield packets; forget what is reported of those before the first key frame.

    These cannot be decoded, such as at the beginning of a recording of television.
    """
    has_begun = False
    for packet in read_packets(container, path):
        if packet.is_keyframe and not has_begun:
            has_begun = True
            reports.clear()
        yield packet


def _find_fault(idle: "SimpleQueue[_Reader]", file: tuple) -> tuple[str, str | None]:
    reader = idle.get()
    try:
        return file[0], reader.find_fault(file)
    finally:
        idle.put(reader)


class _Reader:
    """A process that reads files one after the other, and is replaced when it crashes or hangs."""

    def __init__(self, read: Read, time_limit: float) -> None:
        self.read, self.time_limit = read, time_limit
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._files, self._is_closed = 0, False

    def find_fault(self, file: tuple) -> str | None:
        """Read a file, and return what is wrong with it."""
        is_new = self._process is None
        if is_new:
            self._start(file[0])
        try:
            self._pipe.send(file)
            fault = self._pipe.recv()
        except (EOFError, OSError):
            code = self._end()
            if code == -signal.SIGALRM:
                return f"made no progress for {self.time_limit:g} s and was killed"
            if not is_new:  # a file before it may have damaged the process
                return self.find_fault(file)
            return f"crashed its process ({_describe_end(code)})"
        self._files += 1
        if self._files == FILES_OF_PROCESS:
            self._stop()
        return fault

    def close(self) -> None:
        """Kill the process, and start no other one."""
        with _LOCK:
            self._is_closed = True
        self._stop()

    def _start(self, path: str) -> None:
        self._pipe, end = _PROCESSES.Pipe()
        process = _PROCESSES.Process(
            target=_read_files, args=(end, self.read, self.time_limit), daemon=True
        )
        with _LOCK:
            if self._is_closed:
                raise RuntimeError("no more files are read")
            process.start()
            self._process, self._files = process, 0
        end.close()
        what = f"the process that would read {path}"
        if not self._pipe.poll(START_LIMIT):
            raise LostProcess(f"{what} did not start in {START_LIMIT} s")
        try:
            self._pipe.recv()
        except EOFError as error:
            reason = _describe_end(self._end())
            raise LostProcess(f"{what} ended before it began ({reason})") from error

    def _end(self) -> int:
        """Wait for the end of the process that has closed its pipe, and return its exit status."""
        with _LOCK:
            self._process.join()
            code = self._process.exitcode
        self._stop()
        return code

    def _stop(self) -> None:
        with _LOCK:
            if self._process is not None:
                self._process.kill()
                self._process.join()
                self._process = None


def _describe_end(code: int) -> str:
    """Describe the exit status of a process in words."""
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _read_files(pipe: Connection, read: Read, time_limit: float) -> None:
    """Read the files that come through a pipe, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this one
    limit_silence(time_limit)
    pipe.send("ready")
    while True:
        try:
            file = pipe.recv()
        except EOFError:
            return
        with reading():
            fault = _describe_fault(read, file)
        pipe.send(fault)


def _describe_fault(read: Read, file: tuple) -> str | None:
    try:
        read(*file)
    except BadVideo as error:
        return error.reason
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return None
