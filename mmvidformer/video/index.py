"""What is known of the frames of a file without decoding them."""

import os
from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, repeat
from typing import BinaryIO, NamedTuple

import av
import numpy as np
from av import Packet, VideoFrame, VideoStream
from av.container import InputContainer

from mmvidformer.video.containers import open_container, video_stream
from mmvidformer.video.errors import with_suffix
from mmvidformer.video.mp4 import read_delays
from mmvidformer.video.progress import note_progress
from mmvidformer.video.times import FrameTimes

_UNKNOWN = np.iinfo(np.int64).min
# Of all frames: times of display, and whether they are key frames, and discarded by an edit list.
_FrameList = tuple[np.ndarray, np.ndarray, np.ndarray]


class Index(NamedTuple):
    """The frames of a file in the order of display.

    Attributes:
        length: Number of frames.
        times: Their seconds; at a constant rate, if the file states none (AVI).
        stamps: Their times in the unit of the stream, ascending; None if these do not number them.
        keys: Frames at which decoding can start.
    """

    length: int
    times: FrameTimes
    stamps: np.ndarray | None = None
    keys: np.ndarray = np.zeros(1, int)


def index_of(source: str | BinaryIO) -> Index:
    """Index the frames of a file; that of a path is remembered until the file changes.

    The header of MP4 and QuickTime files lists all frames. Files in fragments and of other formats
    are read to their end.
    """
    if not isinstance(source, str):
        with open_container(source) as container:
            return _read_index(container, source)
    status = os.stat(source)
    return _index_of_file(os.path.realpath(source), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1024)  # 16 bytes per frame
def _index_of_file(path: str, changed: int, size: int) -> Index:
    with open_container(path) as container, open(path, "rb") as file:
        return _read_index(container, file)


def _read_index(container: InputContainer, file: BinaryIO) -> Index:
    stream = video_stream(container)
    packets = container.demux(stream)
    first = next(packets)
    listed = _frames_of_header(stream, first, file)
    listed = _frames_of_packets(chain([first], packets)) if listed is None else listed
    stamps, is_key, is_discarded = listed
    shown = stamps[~is_discarded]
    times = np.unique(shown[shown != _UNKNOWN])
    # An edit list may show a part from its middle; decoding starts at a key frame before it.
    is_start = is_key & (~is_discarded | (stamps < times[:1]))
    keys = np.unique(np.searchsorted(times, stamps[is_start]))
    seconds = (times - times[:1]) * float(stream.time_base)
    # Browsers record cameras without a rate.
    measured = float((len(times) - 1) / seconds[-1]) if len(times) > 1 else 0.0
    rate = float(stream.average_rate or 0) or measured
    # AVI states no times of display, and frames do not have those that FFmpeg makes up. What stands
    # before the first key frame cannot be decoded.
    is_avi = container.format.name == "avi"
    if len(times) != len(shown) or not keys.size or keys[0] or is_avi:
        return Index(len(shown), FrameTimes(rate))
    # Some files state a wrong rate, and that of FFmpeg counts how long the last frame is shown.
    frame_times = FrameTimes(rate, seconds)
    if measured and not frame_times.is_constant and frame_times.has_rate(measured):
        frame_times = FrameTimes(measured, seconds)
    return Index(len(times), frame_times, times, keys)


def _frames_of_header(stream: VideoStream, first: Packet, file: BinaryIO) -> _FrameList | None:
    """List the frames of MP4 and QuickTime files.

    FFmpeg knows the times of decoding, after edit lists; the header says how much later each frame
    is displayed. None if it does not list all frames.

    Args:
        stream: The video.
        first: Its first packet.
        file: The file. Its position, from which FFmpeg reads on, stays.
    """
    if not stream.container.format.name.startswith("mov") or first.pts is None:
        return None
    position = file.tell()
    delays_of_frames = read_delays(file, stream.id)
    file.seek(position)
    frames = [frame for frame in stream.index_entries if frame.size]
    if delays_of_frames is None or not frames:
        return None
    known, delays = delays_of_frames
    positions = np.array([first.pos, *(frame.pos for frame in frames)])
    places = np.minimum(known.searchsorted(positions), len(known) - 1)
    if (known[places] != positions).any():
        return None
    delays = delays[places]
    # FFmpeg may display all frames later, so that none is displayed before it is decoded.
    shift = first.pts - first.dts - delays[0]
    stamps = np.array([frame.timestamp for frame in frames]) + delays[1:] + shift
    is_key = np.array([frame.is_keyframe for frame in frames])
    return stamps, is_key, np.array([frame.is_discard for frame in frames])


def _frames_of_packets(packets: Iterable[Packet]) -> _FrameList:
    """List the frames of a file, of which all packets are read."""
    stamps, is_key, is_discarded = array("q"), array("b"), array("b")
    for packet in packets:
        note_progress()
        if packet.size:
            stamps.append(_UNKNOWN if packet.pts is None else packet.pts)
            is_key.append(packet.is_keyframe)
            is_discarded.append(packet.is_discard)
    return np.array(stamps, np.int64), np.array(is_key, bool), np.array(is_discarded, bool)


def repeat_frames(
    frames: Iterable[VideoFrame], index: Index, repeats: np.ndarray
) -> Iterator[VideoFrame]:
    """Yield decoded frames as often as ``FrameTimes.repeats`` says."""
    for frame in frames:
        number = min(int(index.stamps.searchsorted(frame.pts or 0)), len(repeats) - 1)
        yield from repeat(frame, repeats[number])


def rate_fault(path: str, rate: float | None) -> str | None:
    """Describe why frame k of a file is not shown at ``k / rate`` seconds.

    The reason is that the rate is unknown, or that a frame is more than one frame away from there,
    as in recordings of telephones and screens. None if all is well, or the file is not local or
    has no times, such as AVI.
    """
    if not rate:
        return "its frame rate is unknown"
    path = with_suffix(path)
    try:
        times = index_of(path).times
    except (av.FFmpegError, OSError, ValueError):  # said where it is decoded
        return None
    if times.has_rate(rate):
        return None
    number = int(np.abs(times.frames_late(rate)).argmax())
    wrong = FrameTimes(rate).seconds(number)
    where = f"frame {number} is at {times.starts[number]:.2f} s, not at {wrong:.2f} s"
    remedy = f"ffmpeg -i IN -vf fps={round(times.constant_rate) or 1} OUT"
    remedy = f"read it with VideoInit, or make it constant: {remedy}, or mmvidformer data prepare"
    return f"its frame rate varies ({where}); {remedy}"
