"""What is known of the frames of a file, in a few bytes, so that it is read only once."""

import struct
import zlib
from fractions import Fraction

import numpy as np

from mmvidformer.video.errors import BadVideo, blame
from mmvidformer.video.index import Index
from mmvidformer.video.times import FrameTimes

# Frames, time stamps, key frames; frames per second, seconds of a unit of the time stamps.
_HEADER = struct.Struct("<IIIdd")
_WHOLE, _REAL = np.dtype("<i8"), np.dtype("<f8")
LARGEST_UNIT = 10**9  # of which a second may have so many


def pack_index(index: Index) -> bytes:
    """Write an index as bytes, about 60 of a file of constant rate."""
    stamps = np.zeros(0, np.int64) if index.stamps is None else index.stamps
    unit = _unit_of(index)
    header = _HEADER.pack(index.length, len(stamps), len(index.keys), index.times.rate, unit)
    # Differences of differences are zero at a constant rate.
    steps = np.diff(stamps, n=2, prepend=[0, 0]) if len(stamps) else stamps
    content = [steps.astype(_WHOLE), np.diff(index.keys, prepend=0).astype(_WHOLE)]
    if index.times.starts is not None and not unit:
        content.append(index.times.starts.astype(_REAL))
    return header + zlib.compress(b"".join(part.tobytes() for part in content), 9)


def unpack_index(content: bytes, name: str) -> Index:
    """Read an index that ``pack_index`` wrote, of the video of a name.

    Raises:
        BadVideo: If it is something else.
    """
    with blame(name, "its shard"):
        length, stamp_count, key_count, rate, unit = _HEADER.unpack_from(content)
        limit = 8 * (stamp_count + key_count + length)
        packed = zlib.decompressobj().decompress(content[_HEADER.size :], limit + 1)
        steps = np.frombuffer(packed, _WHOLE, stamp_count)
        keys = np.frombuffer(packed, _WHOLE, key_count, offset=8 * stamp_count)
        starts = np.frombuffer(packed, _REAL, offset=8 * (stamp_count + key_count))
        if len(starts) not in (0, length):
            raise BadVideo(name, f"its shard has {len(starts)} times of {length} frames")
    stamps = np.cumsum(np.cumsum(steps)) if stamp_count else None
    if unit:
        starts = (stamps - stamps[:1]) * unit
    times = FrameTimes(rate, np.array(starts) if len(starts) else None)
    return Index(length, times, stamps, np.cumsum(keys))


def _unit_of(index: Index) -> float:
    """Return the seconds of a unit of the time stamps; 0 if these do not tell the times."""
    stamps, starts = index.stamps, index.times.starts
    if stamps is None or starts is None or len(stamps) < 2:
        return 0.0
    ratio = starts[-1] / (stamps[-1] - stamps[0])
    unit = float(Fraction(ratio).limit_denominator(LARGEST_UNIT))
    return unit if np.array_equal((stamps - stamps[:1]) * unit, starts) else 0.0
