"""Opening video files."""

import os
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

import av
from av import Packet, VideoFrame, VideoStream
from av.container import InputContainer
from av.stream import Disposition

from mmvidformer.video.errors import BadVideo, blame, name_of
from mmvidformer.video.facts import require_file
from mmvidformer.video.progress import note_progress
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
# For titles and places whose bytes are not UTF-8. PyAV 19 takes any, and has no such option.
TEXT = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}


def open_container(source: str | Path | BinaryIO, max_pixels: int | None = None) -> InputContainer:
    """Open a video file, of one of ``FORMATS`` whatever its name.

    Args:
        source: Path of the file, or a file object, which is read from its beginning.
        max_pixels: Largest height x width of a frame. Larger frames are not decoded; if they
            follow smaller ones, decoding raises. None for no limit.

    Raises:
        BadVideo: If there is no such file, or no right to read it; if it is damaged, has another
            format, no video that can be decoded, or larger frames.
    """
    limit = {"max_pixels": str(max_pixels)} if max_pixels else {}
    options = {"format_whitelist": FORMATS}
    name = str(source) if isinstance(source, str | Path) else name_of(source)
    with blame(name):
        if isinstance(source, str | Path):
            options["protocol_whitelist"] = "file"
            require_file(str(source))
            with open(source, "rb"):  # if that is not possible, the system says why
                source = os.path.abspath(source)  # FFmpeg takes "12:30.mp4" for an address
        else:
            source.seek(0)
        try:
            container = av.open(source, options=limit, container_options=options, **TEXT)
        except av.error.ArgumentError as error:
            raise BadVideo(name, f"its format is none of {FORMATS}") from error
        codec = find_video(container, name).codec_context
        if max_pixels and codec.width * codec.height > max_pixels:
            size = f"{codec.width}x{codec.height}"
            raise BadVideo(name, f"frames must have at most {max_pixels} pixels, got {size}")
        codec.options = limit
    return container


def find_video(container: InputContainer, name: str) -> VideoStream:
    """Return the video of a container: FFmpeg's best video stream, which is not always the first.

    Args:
        container: The container.
        name: What messages call it.

    Raises:
        BadVideo: If there is none, no decoder for it, or only a picture, such as a song's cover.
    """
    stream = container.streams.best("video")
    if stream is None or stream.codec_context is None:
        no_decoder = "there is no decoder for its video"
        raise BadVideo(name, no_decoder if container.streams.video else "it has no video stream")
    if stream.disposition & Disposition.attached_pic:
        raise BadVideo(name, "it has no video stream, only an attached picture")
    return stream


def video_stream(container: InputContainer) -> VideoStream:
    """Return the video of a container that ``open_container`` opened."""
    return container.streams.best("video")


def stated_duration(container: InputContainer) -> float:
    """Return the seconds that a file states its video to last; 0 if it states none."""
    stream = video_stream(container)
    if stream.duration:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / av.time_base


def read_packets(container: InputContainer, name: str) -> Iterator[Packet]:
    """Yield the packets of the video in the order in which they are decoded, then an empty one.

    Raises:
        BadVideo: If they are encrypted. Some decoders would return noise.
    """
    is_first = True
    for packet in container.demux(video_stream(container)):
        if is_first and packet.has_sidedata("encryption_info"):
            raise BadVideo(name, "its video is encrypted")
        is_first = False
        note_progress()
        yield packet


def decode_frames(container: InputContainer, name: str) -> Iterator[VideoFrame]:
    """Decode the video of a container that was just opened, in order.

    Raises:
        BadVideo: If it cannot be decoded, or a frame is damaged.
    """
    return decode_packets(read_packets(container, name), name)


def decode_packets(packets: Iterable[Packet], name: str) -> Iterator[VideoFrame]:
    """Decode all packets of a video, as ``decode_frames`` does."""
    number = 0
    with blame(name):
        for packet in packets:
            for frame in packet.decode():
                if frame.is_corrupt:
                    raise BadVideo(name, f"frame {number} is damaged")
                yield frame
                number += 1


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
