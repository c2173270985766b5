"""What is known of the frames of a file: as far as possible without decoding them."""

import math
import os
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import BinaryIO, NamedTuple

import numpy as np
from av import VideoFrame

from mmvidformer.video.containers import decode_frames, open_container, read_packets, video_stream
from mmvidformer.video.errors import BadVideo, blame, name_of, with_suffix
from mmvidformer.video.frame_list import UNKNOWN, FrameList, is_interlaced, read_frame_list
from mmvidformer.video.index_memory import IndexMemory
from mmvidformer.video.times import FrameTimes

PROBE = 16  # frames that are decoded where the list of a container may be wrong
LONGEST_GAP = 3600.0  # seconds between two frames; a longer one is a broken time stamp
MOST_FRAMES = 10_000_000  # at a constant rate; two days at 60 per second


class Index(NamedTuple):
    """The frames of a file in the order of display.

    Attributes:
        length: Number of frames.
        times: Their seconds; at a constant rate, if the file states none.
        stamps: Their times in the unit of the stream, ascending; None if these do not number them.
        keys: Frames at which decoding can start, as the container states.
    """

    length: int
    times: FrameTimes
    stamps: np.ndarray | None = None
    keys: np.ndarray = np.zeros(1, int)


_memory: IndexMemory[Index] = IndexMemory(most_bytes=1 << 26)  # a film of two hours has 4 MB


def index_of(source: str | BinaryIO, max_pixels: int | None = None) -> Index:
    """Index the frames of a file; that of a path is remembered until the file changes.

    The header of MP4 and QuickTime files lists all frames. Files in fragments and of other formats
    are read to their end. Where the list contradicts itself, frames are decoded.

    Args:
        source: Path of the file, or a file object.
        max_pixels: As of ``open_container``.

    Raises:
        BadVideo: If there is no such file, the frames cannot be listed, or their times make no
            sense.
    """
    with blame(name_of(source)):
        if not isinstance(source, str):
            return _read_index(source, source, max_pixels)
        status = os.stat(source)
        key = (os.path.realpath(source), status.st_mtime_ns, status.st_size, max_pixels)
        index = _memory.get(key)
        if index is None:
            with open(source, "rb") as file:
                index = _read_index(source, file, max_pixels)
            _memory.put(key, index, _bytes_of(index))
        return index


def decoded_index(source: str | BinaryIO, max_pixels: int | None = None) -> Index:
    """Index the frames of a file by decoding all of them, which is slow.

    Their number is that of sequential decoding, and so are their times if these ascend.

    Raises:
        BadVideo: If one of them cannot be decoded.
    """
    name = name_of(source)
    with blame(name), open_container(source, max_pixels) as container:
        stream = video_stream(container)
        rate, unit = float(stream.average_rate or 0), float(stream.time_base)
        is_avi = container.format.name == "avi"
        frames = [
            (frame.dts if is_avi else frame.pts, frame.key_frame)
            for frame in decode_frames(container, name)
        ]
    stamps = np.array([pts for pts, _ in frames if pts is not None], np.int64)
    if is_avi:
        return _index_of_avi(stamps, len(frames), rate, unit, name)
    steps = np.diff(stamps)
    if len(stamps) < len(frames) or (steps < 0).any():
        return Index(len(frames), FrameTimes(rate))
    if len(stamps) > 1 and not steps.any():
        raise BadVideo(name, f"its {len(stamps)} frames have the same time")
    times = _frame_times(stamps, rate, unit, name)
    if not steps.all():
        return Index(len(frames), times)
    keys = np.flatnonzero([is_key for _, is_key in frames])
    return Index(len(frames), times, stamps, np.union1d(0, keys))


def _bytes_of(index: Index) -> int:
    arrays = (index.stamps, index.times.starts, index.keys)
    return 1000 + sum(array.nbytes for array in arrays if array is not None)


def _read_index(source: str | BinaryIO, file: BinaryIO, max_pixels: int | None) -> Index:
    name = name_of(source)
    with open_container(source, max_pixels) as container:
        stream = video_stream(container)
        frames = read_frame_list(container, file, name)
        rate, unit = float(stream.average_rate or 0), float(stream.time_base)
        has_fields = is_interlaced(stream, unknown=True)
        is_avi = container.format.name == "avi"
        is_reordered = stream.codec_context.has_b_frames
    shown = frames.stamps[~frames.is_discarded]
    if not shown.size:
        return Index(0, FrameTimes(rate))
    starts_with_key = bool(frames.is_key[0])
    if is_avi:
        delay = _probe_delay(source, shown, max_pixels) if is_reordered else 0
        if starts_with_key and delay is not None:
            return _index_of_avi(shown[delay:], len(shown), rate, unit, name)
        return decoded_index(source, max_pixels)
    if (shown == UNKNOWN).all():
        if starts_with_key and not has_fields:
            return Index(len(shown), FrameTimes(rate))
        return decoded_index(source, max_pixels)
    stamps = np.unique(shown)
    if len(stamps) < len(shown) or stamps[0] == UNKNOWN:
        return decoded_index(source, max_pixels)
    keys = _find_keys(frames, stamps)
    if has_fields or not starts_with_key or not keys.size or keys[0]:
        # Frames before the first key frame may not be decoded, and a frame may have two packets.
        first = _decode_first(source, max_pixels)
        start = int(stamps.searchsorted(first[0])) if len(first) else len(stamps)
        stamps, keys = stamps[start:], keys[keys >= start] - start
        is_whole = len(first) == PROBE or len(first) == len(stamps)
        if not is_whole or not np.array_equal(stamps[: len(first)], first):
            return decoded_index(source, max_pixels)
    keys = np.union1d(0, keys)
    return Index(len(stamps), _frame_times(stamps, rate, unit, name), stamps, keys)


def _find_keys(frames: FrameList, stamps: np.ndarray) -> np.ndarray:
    """Return the numbers of the key frames; the first one is there if decoding starts with it."""
    # An edit list may show a part from its middle; decoding starts at a key frame before it.
    is_start = frames.is_key & (~frames.is_discarded | (frames.stamps < stamps[0]))
    return np.unique(np.searchsorted(stamps, frames.stamps[is_start]))


def _decode_first(source: str | BinaryIO, max_pixels: int | None) -> list[int]:
    """Return the times of the first frames that the decoder returns."""
    with open_container(source, max_pixels) as container:
        frames = islice(decode_frames(container, name_of(source)), PROBE)
        return [UNKNOWN if frame.pts is None else frame.pts for frame in frames]


def _index_of_avi(stamps: np.ndarray, length: int, rate: float, unit: float, name: str) -> Index:
    """Index the frames of an AVI file by the times at which they leave the decoder.

    AVI states no times of display, and frames do not have those that FFmpeg makes up. The decoder
    returns the last frames without times; they follow at the usual distance.
    """
    steps = np.diff(stamps)
    if not len(stamps) or (stamps == UNKNOWN).any() or (steps <= 0).any():
        return Index(length, FrameTimes(rate))
    step = int(np.median(steps)) if len(steps) else 1
    if (steps == step).all() and math.isclose(rate * step * unit, 1, rel_tol=1e-9):
        return Index(length, FrameTimes(rate))
    late = stamps[-1] + step * np.arange(1, length - len(stamps) + 1)
    return Index(length, _frame_times(np.concatenate([stamps, late]), rate, unit, name))


def _probe_delay(source: str | BinaryIO, stamps: np.ndarray, max_pixels: int | None) -> int | None:
    """Return how many packets of AVI the decoder reads before the one that gives its first frame.

    None if it leaves out frames, such as those that refer to what is before the file.
    """
    with open_container(source, max_pixels) as container:
        packets = islice(read_packets(container, name_of(source)), min(PROBE, len(stamps)))
        context = video_stream(container).codec_context
        frames = [frame for packet in packets for frame in context.decode(packet)]
        frames += context.decode(None)
    if len(frames) < min(PROBE, len(stamps)) or frames[0].dts not in stamps:
        return None
    return int(np.flatnonzero(stamps == frames[0].dts)[0])


def _frame_times(stamps: np.ndarray, rate: float, unit: float, name: str) -> FrameTimes:
    """Return the seconds of frames, whose times ascend.

    Raises:
        BadVideo: If the time between two frames, or all together, makes no sense.
    """
    seconds = (stamps - stamps[0]) * unit
    # Browsers record cameras without a rate.
    measured = float((len(seconds) - 1) / seconds[-1]) if len(seconds) > 1 else 0.0
    times = FrameTimes(rate or measured, seconds)
    # Some files state a wrong rate, and that of FFmpeg counts how long the last frame is shown.
    if measured and not times.is_constant and times.has_rate(measured):
        times = FrameTimes(measured, seconds)
    gaps = np.diff(seconds)
    if (gaps > LONGEST_GAP).any():
        number = int(gaps.argmax())
        wrong = f"frame {number + 1} comes {gaps[number] / 3600:,.1f} hours after the one before"
        raise BadVideo(name, f"{wrong}: its time stamps are broken")
    if seconds[-1] * float(times.constant_rate) > MOST_FRAMES:
        wrong = f"{len(seconds)} frames last {seconds[-1] / 3600:,.1f} hours"
        raise BadVideo(name, f"{wrong}: its time stamps are broken")
    return times


def repeat_frames(frames: Iterable[VideoFrame], index: Index) -> Iterator[VideoFrame]:
    """Yield decoded frames as often as ``FrameTimes.repeats`` says."""
    repeats = index.times.repeats()
    if repeats is None:
        yield from frames
        return
    for count, frame in enumerate(frames):
        number = count if index.stamps is None else int(index.stamps.searchsorted(frame.pts or 0))
        yield from repeat(frame, repeats[min(number, len(repeats) - 1)])


def require_constant_rate(path: str, rate: float) -> None:
    """Check that frame k of a file is shown at ``k / rate`` seconds, or at most one frame away.

    It is not so in recordings of telephones and screens. All is well with a file that is not local,
    or has no times.

    Raises:
        BadVideo: If a frame is further away.
    """
    try:
        times = index_of(with_suffix(path)).times
    except BadVideo:  # said where it is decoded
        return
    if times.has_rate(rate):
        return
    number = int(np.abs(times.frames_late(rate)).argmax())
    wrong = FrameTimes(rate).seconds(number)
    where = f"frame {number} is at {times.starts[number]:.2f} s, not at {wrong:.2f} s"
    remedy = f"ffmpeg -i IN -vf fps={round(times.constant_rate) or 1} OUT"
    remedy = f"read it with VideoInit, or make it constant: {remedy}, or mmvidformer data prepare"
    raise BadVideo(path, f"its frame rate varies ({where}); {remedy}")
