"""The frames of a file as its container lists them, without decoding."""

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import BinaryIO, NamedTuple

import numpy as np
from av import Packet, VideoStream
from av.container import InputContainer

from mmvidformer.video.containers import read_packets, video_stream
from mmvidformer.video.mp4 import read_delays

UNKNOWN = np.iinfo(np.int64).min
PROGRESSIVE = 1  # of FFmpeg's orders of fields; greater ones are interlaced


class FrameList(NamedTuple):
    """Frames in the order of decoding.

    Attributes:
        stamps: Times of display in the unit of the stream (n,); ``UNKNOWN`` where there is none.
            AVI states times of decoding only; these are given instead.
        is_key: Whether the container calls them key frames (n,).
        is_discarded: Whether an edit list leaves them out (n,).
    """

    stamps: np.ndarray
    is_key: np.ndarray
    is_discarded: np.ndarray


def read_frame_list(container: InputContainer, file: BinaryIO, name: str) -> FrameList:
    """List the frames of a container that was just opened.

    Args:
        container: The container.
        file: Its file. Its position, from which FFmpeg reads on, stays where it matters.
        name: What messages call it.
    """
    stream = video_stream(container)
    packets = read_packets(container, name)
    first = next(packets)
    listed = _frames_of_header(stream, first, file)
    return _frames_of_packets(stream, chain([first], packets)) if listed is None else listed


def _frames_of_header(stream: VideoStream, first: Packet, file: BinaryIO) -> FrameList | None:
    """List the frames of MP4 and QuickTime files.

    FFmpeg knows the times of decoding, after edit lists; the header says how much later each frame
    is displayed. None if it does not list all frames.
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
    return FrameList(stamps, is_key, np.array([frame.is_discard for frame in frames]))


def _frames_of_packets(stream: VideoStream, packets: Iterable[Packet]) -> FrameList:
    """List the frames of a file, of which all packets are read."""
    stamps, durations = array("q"), array("q")
    is_key, is_discarded = array("b"), array("b")
    codec, is_avi = stream.codec_context.name, stream.container.format.name == "avi"
    for packet in packets:
        if packet.size and not _is_hidden(codec, packet):
            stamp = packet.dts if is_avi else packet.pts
            stamps.append(UNKNOWN if stamp is None else stamp)
            durations.append(packet.duration or 0)
            is_key.append(packet.is_keyframe)
            is_discarded.append(packet.is_discard)
    is_shown = ~_are_second_fields(stream, np.array(durations, np.int64))
    return FrameList(
        np.array(stamps, np.int64)[is_shown],
        np.array(is_key, bool)[is_shown],
        np.array(is_discarded, bool)[is_shown],
    )


def is_interlaced(stream: VideoStream, unknown: bool) -> bool:
    """Whether frames have two fields; ``unknown`` with PyAV 17 (Python 3.10), which cannot tell."""
    order = getattr(stream.codec_context, "field_order", None)
    return unknown if order is None else order > PROGRESSIVE


def _is_hidden(codec: str, packet: Packet) -> bool:
    """Whether a packet of VP8 or VP9 shows nothing: others refer to it.

    Sources: RFC 6386, 9.1; VP9 Bitstream & Decoding Process Specification, 6.2 and annex B.
    """
    if codec not in ("vp8", "vp9"):
        return False
    content = memoryview(packet)
    first, last = content[0], content[-1]
    if codec == "vp8":
        return not first & 0b10000
    if last >> 5 == 0b110:  # several frames, of which the last one is shown
        return False
    if first & 0b110000 == 0b110000:  # profile 3 has one more bit
        first <<= 1
    shows_existing, shows_this = first & 0b1000, first & 0b10
    return not shows_existing and not shows_this


def _are_second_fields(stream: VideoStream, durations: np.ndarray) -> np.ndarray:
    """Return which packets (n,) of interlaced video are the second fields of frames."""
    rate = stream.average_rate or stream.guessed_rate
    if not is_interlaced(stream, unknown=False) or not rate:
        return np.zeros(len(durations), bool)
    of_frame = float(1 / rate / stream.time_base)
    is_field = np.abs(2 * durations - of_frame) <= 1
    return is_field & (np.cumsum(is_field) % 2 == 0)
