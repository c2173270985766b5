"""Opening video files."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

import av
from av import VideoFrame, VideoStream
from av.container import InputContainer
from av.stream import Disposition

from mmvidformer.video.times import FrameTimes

# Formats of FFmpeg that hold a video themselves. Others, such as playlists, name further files.
FORMATS = "mov,matroska,avi,mpegts,mpeg,mpegvideo,h264,hevc,m4v,flv,asf,ogg,rm,gif,dv,mxf,nut,ivf"
# What the names of such videos end with, in small letters. Those of sound and pictures are left
# out, such as .m4a and .avif.
SUFFIXES = frozenset(
    ".3g2 .3gp .asf .avi .dif .divx .dv .f4v .flv .gif .insv .ismv .ivf .m4v .mj2 .mk3d .mkv .mov "
    ".mp4 .mxf .nut .ogm .ogv .psp .qt .rm .rmvb .webm .wmv "
    ".dvd .evo .m1v .m2p .m2t .m2ts .m2v .mod .mpe .mpeg .mpg .mpv .mts .tod .tp .trp .ts .vob "
    ".264 .265 .avc .h264 .h265 .h26l .hevc".split()
)


def open_container(source: str | Path | BinaryIO, max_pixels: int | None = None) -> InputContainer:
    """Open a video file, of one of ``FORMATS`` whatever its name.

    Args:
        source: Path of the file, or a file object, which is read from its beginning.
        max_pixels: Largest height x width of a frame. Larger frames are not decoded; if they
            follow smaller ones, decoding raises. None for no limit.

    Raises:
        ValueError: If the file has another format, no video that can be decoded, or larger frames.
        av.FFmpegError: If the file is damaged.
    """
    limit = {"max_pixels": str(max_pixels)} if max_pixels else {}
    options = {"format_whitelist": FORMATS}
    if isinstance(source, str | Path):
        options["protocol_whitelist"] = "file"
    else:
        source.seek(0)
    try:
        container = av.open(source, options=limit, container_options=options)
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


def keep_time(frames: Iterable[VideoFrame], fps: float) -> Iterator[VideoFrame]:
    """Repeat or leave out frames of a file without an index, which are more than a frame late.

    The times are those of the container, from the first frame on, against ``number / fps``.
    """
    number, start, last, times = 0, None, None, FrameTimes(fps)
    for frame in frames:
        if frame.time is not None:
            start = frame.time if start is None else start
            place = round(times.numbers(frame.time - start))
            if place < number - 1:
                continue
            if place > number + 1:
                yield from repeat(last, place - number)
                number = place
        yield frame
        number, last = number + 1, frame
