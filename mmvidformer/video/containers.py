import os
from array import array
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

import av
import numpy as np
from av import Packet, VideoFrame, VideoStream
from av.container import InputContainer
from av.stream import Disposition

from mmvidformer.video.errors import with_suffix

# Formats of FFmpeg that hold a video themselves. Others, such as playlists, name further files.
FORMATS = "mov,matroska,avi,mpegts,mpeg,mpegvideo,h264,hevc,m4v,flv,asf,ogg,rm,gif,dv,mxf,nut,ivf"
_UNKNOWN = np.iinfo(np.int64).min


class Index(NamedTuple):
    """What is known of the frames of a file without decoding them."""

    length: int
    fps: float = 0.0
    times: np.ndarray | None = None  # of display, ascending; None if they do not number the frames
    keys: np.ndarray = np.zeros(1, int)  # frames at which decoding can start
    unit: float = 0.0  # of the times, in seconds
    in_order: bool = False  # whether the times are those of decoding, without B-frames

    def frames_late(self, fps: float) -> np.ndarray:
        """By how many frames each frame comes later than ``number / fps`` after the first one."""
        return (self.times - self.times[0]) * self.unit * fps - np.arange(len(self.times))

    def has_rate(self, fps: float) -> bool:
        """Whether no frame is more than one frame away from ``number / fps``."""
        return bool(np.abs(self.frames_late(fps)).max() <= 1 + 1e-6)

    def rate_to_convert(self) -> float:
        """Return the rate for which a file of variable rate loses hardly a frame.

        It is that of the median distance of frames, up to 60 per second, or at least the mean.
        """
        steps = np.diff(self.times) * self.unit
        return max(float(1 / steps.mean()), min(float(1 / np.median(steps)), 60.0))

    def constant_rate(self) -> tuple[Fraction, np.ndarray | None]:
        """Return a constant rate, and how often each frame is shown at that rate.

        None stands for once each: the rate of the file is constant, or it states no times. Else a
        frame is shown from the multiple of ``1 / rate`` seconds that is nearest to its time, and
        the last frame once, as ``ffmpeg -vf fps=RATE`` converts a file.
        """
        if self.times is None or self.has_rate(self.fps):
            return Fraction(self.fps).limit_denominator(1001), None
        rate = Fraction(self.rate_to_convert()).limit_denominator(1001)
        places = np.round((self.times - self.times[0]) * self.unit * float(rate)).astype(int)
        return rate, np.diff(places, append=places[-1] + 1)


def open_container(path: str, max_pixels: int | None = None) -> InputContainer:
    """Open a video file, of one of ``FORMATS`` whatever its name.

    Args:
        path: The file.
        max_pixels: Largest height x width of a frame. Larger frames are not decoded; if they
            follow smaller ones, decoding raises. None for no limit.

    Raises:
        ValueError: If the file has another format, no video that can be decoded, or larger frames.
        av.FFmpegError: If the file is damaged.
    """
    limit = {"max_pixels": str(max_pixels)} if max_pixels else {}
    options = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}
    try:
        container = av.open(path, options=limit, container_options=options)
    except av.error.ArgumentError as error:
        raise ValueError(f"its format is none of {FORMATS}") from error
    codec = video_stream(container).codec_context
    if max_pixels and codec.width * codec.height > max_pixels:
        size = f"{codec.width}x{codec.height}"
        raise ValueError(f"frames must have at most {max_pixels} pixels, got {size}")
    codec.options = limit
    return container


def video_stream(container: InputContainer) -> VideoStream:
    """Return the video of a container: FFmpeg's best video stream, which is not always the first.

    Raises:
        ValueError: If there is none, no decoder for it, or only a picture, such as a song's cover.
    """
    stream = container.streams.best("video")
    if stream is None or stream.codec_context is None:
        raise ValueError("no video stream, or no decoder for it")
    if stream.disposition & Disposition.attached_pic:
        raise ValueError("no video stream, only an attached picture")
    return stream


def index_of(path: str) -> Index:
    """Read the times of all frames of a file, or remember those of one that was read before."""
    status = os.stat(path)
    return _read_index(os.path.realpath(path), status.st_mtime_ns, status.st_size)


def repeat_frames(
    frames: Iterable[VideoFrame], index: Index, counts: np.ndarray
) -> Iterator[VideoFrame]:
    """Yield decoded frames as often as ``Index.constant_rate`` says, by the times of the index."""
    for frame in frames:
        number = min(int(index.times.searchsorted(frame.pts or 0)), len(counts) - 1)
        yield from repeat(frame, counts[number])


def keep_time(frames: Iterable[VideoFrame], fps: float) -> Iterator[VideoFrame]:
    """Repeat or leave out frames of a file without an index, which are more than a frame late.

    The times are those of the container, from the first frame on, against ``number / fps``.
    """
    number, start, last = 0, None, None
    for frame in frames:
        if frame.time is not None:
            start = frame.time if start is None else start
            place = round((frame.time - start) * fps)
            if place < number - 1:
                continue
            if place > number + 1:
                yield from repeat(last, place - number)
                number = place
        yield frame
        number, last = number + 1, frame


def rate_fault(path: str, fps: float | None) -> str | None:
    """Describe why ``number / fps`` is not the time of a file's frames, in seconds after the first.

    The reason is that the rate is unknown, or that a frame is more than one frame away from there,
    as in recordings of telephones and screens. None if all is well, or the file is not local or
    has no times, such as AVI.
    """
    if not fps:
        return "its frame rate is unknown"
    path = with_suffix(path)
    try:
        index = index_of(path)
    except (av.FFmpegError, OSError, ValueError):  # said where it is decoded
        return None
    if index.times is None or index.has_rate(fps):
        return None
    number = int(np.abs(index.frames_late(fps)).argmax())
    seconds = (index.times[number] - index.times[0]) * index.unit
    where = f"frame {number} is at {seconds:.2f} s, not at {number / fps:.2f} s"
    remedy = f"ffmpeg -i IN -vf fps={round(index.rate_to_convert()) or 1} OUT"
    remedy = f"read it with VideoInit, or make it constant: {remedy}, or mmvidformer data prepare"
    return f"its frame rate varies ({where}); {remedy}"


@lru_cache(maxsize=1024)  # 8 bytes per frame
def _read_index(path: str, changed: int, size: int) -> Index:
    stamps, is_key = array("q"), array("b")
    with open_container(path) as container:
        is_avi, stream = container.format.name == "avi", video_stream(container)
        fps, unit = float(stream.average_rate or 0), stream.time_base
        packets = container.demux(stream)
        first = next(packets)
        in_order = _lists_frames_in_order(stream, first)
        # Without B-frames the header of the file says all; else each packet is read.
        for frame in stream.index_entries if in_order else chain([first], packets):
            if frame.size and not frame.is_discard:
                time = frame.timestamp if in_order else frame.pts
                stamps.append(_UNKNOWN if time is None else time)
                is_key.append(frame.is_keyframe)
    stamps, is_key = np.asarray(stamps), np.asarray(is_key, bool)
    times = np.unique(stamps[stamps != _UNKNOWN])
    keys = np.searchsorted(times, np.sort(stamps[is_key]))
    # Browsers record cameras without a rate.
    measured = float((len(times) - 1) / int(times[-1] - times[0]) / unit) if len(times) > 1 else 0.0
    # AVI states no times of display, and frames do not have those that FFmpeg makes up. What stands
    # before the first key frame cannot be decoded.
    if len(times) != len(stamps) or not keys.size or keys[0] or is_avi:
        return Index(len(stamps), fps or measured)
    index = Index(len(stamps), fps or measured, times, keys, float(unit), in_order)
    # Some files state a wrong rate, and that of FFmpeg counts how long the last frame is shown.
    has_measured = len(times) > 1 and not index.has_rate(index.fps) and index.has_rate(measured)
    return index._replace(fps=measured) if has_measured else index


def _lists_frames_in_order(stream: VideoStream, first: Packet) -> bool:
    """Whether the header of a file has the times of display of all frames.

    MP4 and QuickTime list the times of decoding. They are the same unless there are B-frames, for
    which the display is late from the first packet on. Files in fragments list a part.
    """
    is_whole = len(stream.index_entries) == stream.frames > 0
    is_mp4 = stream.container.format.name.startswith("mov")
    has_b_frames = stream.codec_context.has_b_frames or first.pts != first.dts
    return is_mp4 and is_whole and not has_b_frames
