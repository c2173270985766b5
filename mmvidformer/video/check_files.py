"""Reading files in processes that may crash or hang."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import av
from av import Packet
from av.container import InputContainer
from tqdm import tqdm

from mmvidformer.errors import UserError
from mmvidformer.video.containers import (
    decode_packets,
    open_container,
    read_packets,
    stated_duration,
    video_stream,
)
from mmvidformer.video.errors import BadVideo, first_line, with_suffix
from mmvidformer.video.facts import require_frames, require_one_size
from mmvidformer.video.index import index_of
from mmvidformer.video.processes import Lost, Named, run_groups
from mmvidformer.video.progress import reading

Read = Callable[..., object]


def find_faults(
    read: Read, files: Sequence[tuple], workers: int = 4, time_limit: float = 60.0
) -> dict[str, str]:
    """Read files in other processes, and return the faults of the bad ones by their paths.

    Arguments and errors are those of ``read_files``.
    """
    return read_files(read, files, workers, time_limit).faults


class FilesRead(NamedTuple):
    """What reading files returned, and what is wrong with the others, by their paths."""

    values: dict[str, Any]
    faults: dict[str, str]


def read_files(
    read: Read, files: Sequence[tuple], workers: int = 4, time_limit: float = 60.0
) -> FilesRead:
    """Read files in other processes.

    Errors and crashes are faults, and so is to hang, for which a process is killed.

    Args:
        read: Function that reads a file, such as ``read_to_end``; pickle must find it by its name.
            Each process imports its module, which should take little time.
        files: Arguments of ``read`` for each file, its path first.
        workers: Number of processes.
        time_limit: Seconds in which a file must get on (``note_progress``).

    Raises:
        ChildProcessError: If processes end before they begin, for which no file is to blame.
        UserError: If ``read`` raises one that is not about the file, such as of a full disk.
    """
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    groups = [[(file[0], file)] for file in files]
    work, count = partial(_read_group, read), min(workers, len(files))
    messages = run_groups(work, groups, count, time_limit, preloaded=[__name__])
    with closing(messages), tqdm(total=len(files), unit="file", disable=None) as bar:
        for message in messages:
            if isinstance(message, Lost):
                faults |= message.failed
                bar.update(len(message.failed))
                continue
            if message.fault is not None:
                faults[message.path] = message.fault
            else:
                values[message.path] = message.value
            bar.update()
            if faults:
                bar.set_postfix(bad=len(faults))
    return FilesRead(values, faults)


class FileRead(NamedTuple):
    """A file that was read, what is wrong with it, and what reading returned."""

    path: str
    fault: str | None
    value: Any

    @property
    def finished(self) -> list[str]:
        """The path."""
        return [self.path]


def _read_group(
    read: Read, group: Sequence[Named], touch: Callable[[str], None]
) -> Iterator[FileRead]:
    """Read files one after the other, in a process of its own."""
    for path, file in group:
        touch(path)
        with reading():
            message = _read(read, path, file)
        yield message


def _read(read: Read, path: str, file: tuple) -> FileRead:
    try:
        return FileRead(path, None, read(*file))
    except BadVideo as error:
        return FileRead(path, error.reason, None)
    except UserError:  # such as of a full disk, for which no file is to blame
        raise
    except Exception as error:
        return FileRead(path, f"{type(error).__name__}: {first_line(error)}", None)


def read_to_end(path: str, first_only: bool = False) -> float:
    """Decode all frames of a video with PyAV, or only the first one, and index them.

    Like ``ffmpeg -v error``, it also counts what the decoder reports and conceals. What no decoder
    notices, such as the missing end of a Matroska file, it does not find.

    Returns:
        Seconds that the video lasts, as the file states; 0 if it does not.

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
        seconds = stated_duration(container)
    require_frames(path, len(sizes))
    require_one_size(path, sizes)
    errors = [text.strip() for _, name, text in reports if name == codec]
    if errors:
        times = "once" if len(errors) == 1 else f"{len(errors)} times"
        raise BadVideo(path, f"its decoder reports damage {times}, first: {errors[0]}")
    if not first_only:
        index_of(path)
    return seconds


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
