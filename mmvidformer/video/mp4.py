"""Times and turns in the header of MP4 and QuickTime files, of which no frame is read."""

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from mmvidformer.errors import UserError

UINT32, INT32, UINT64 = np.dtype(">u4"), np.dtype(">i4"), np.dtype(">u8")


def read_delays(file: BinaryIO, track: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Read by how much the frames of a track are displayed later than they are decoded.

    The boxes are those of ISO/IEC 14496-12, section 8.

    Args:
        file: The file.
        track: Number of the track, ``id`` of FFmpeg's stream.

    Returns:
        Positions (n,) of the frames in the file, ascending, and their delays (n,) in the unit of
        the track. None if the header does not have them, such as in a file of fragments, or if the
        file ends early.
    """
    header = _read_movie_header(file)
    if header is None or _find(header, b"mvex") is not None:  # fragments have headers of their own
        return None
    for name, content in _boxes(header):
        if name == b"trak" and _track_number(content) == track:
            samples = _find(content, b"mdia", b"minf", b"stbl")
            end_of_file = file.seek(0, os.SEEK_END)
            return samples and _read_sample_table(dict(_boxes(samples)), end_of_file)
    return None


def read_display_matrix(file: BinaryIO, track: int) -> np.ndarray | None:
    """Read how the frames of a track are turned upright: a matrix (9,), row by row.

    The arguments are those of ``read_delays``. None if the header does not say it.
    """
    header = _read_movie_header(file)
    for name, content in _boxes(header or b""):
        if name == b"trak" and _track_number(content) == track:
            box = _find(content, b"tkhd")
            place = 52 if box[0] == 1 else 40
            return np.frombuffer(box, INT32, 9, place) if len(box) >= place + 36 else None
    return None


def _read_movie_header(file: BinaryIO) -> bytes | None:
    """Return the content of the box ``moov``; boxes before it are skipped."""
    end = file.seek(0, os.SEEK_END)
    start = 0
    while start + 8 <= end:
        file.seek(start)
        size, name = struct.unpack(">I4s", file.read(8))
        header = 8
        if size == 1:  # the size follows, in 64 bits
            (size,) = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))
            header = 16
        if size == 0:  # to the end of the file
            size = end - start
        if name == b"moov":
            return file.read(size - header)
        if size < header:
            return None
        start += size
    return None


def _boxes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the content of each box in a box."""
    start = 0
    while start + 8 <= len(content):
        size, name = struct.unpack_from(">I4s", content, start)
        if size < 8:
            return
        yield name, content[start + 8 : start + size]
        start += size


def _find(content: bytes, *names: bytes) -> bytes | None:
    """Return the content of a box in a box, and so on; None if there is none."""
    for name in names:
        content = dict(_boxes(content)).get(name)
        if content is None:
            return None
    return content


def _track_number(track: bytes) -> int | None:
    header = _find(track, b"tkhd")
    if not header:
        return None
    place = 20 if header[0] == 1 else 12  # after two times of 64 or of 32 bits
    return struct.unpack_from(">I", header, place)[0]


def _read_sample_table(
    boxes: dict[bytes, bytes], end_of_file: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Read positions and delays of a track's frames; None if a box or frame is missing or cut."""
    try:
        positions, sizes = _read_positions(boxes, end_of_file)
        delays = np.zeros(len(sizes), np.int64)
        if b"ctts" in boxes:
            counts, offsets = _read_table(boxes[b"ctts"], INT32, columns=2).T
            delays = _repeat(offsets, counts, len(sizes))
    except (KeyError, ValueError, struct.error):
        return None
    if (positions + sizes > end_of_file).any():
        return None
    positions, delays = positions[sizes > 0], delays[sizes > 0]
    order = np.argsort(positions)
    return positions[order], delays[order]


def _read_positions(boxes: dict[bytes, bytes], end_of_file: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions (n,) of a track's frames in the file, and their sizes (n,) in bytes."""
    size, count = struct.unpack_from(">II", boxes[b"stsz"], 4)
    if size * count > end_of_file:
        raise UserError("more frames than the file holds")
    if size:
        sizes = np.full(count, size, np.int64)
    else:
        sizes = np.frombuffer(boxes[b"stsz"], UINT32, count, offset=12).astype(np.int64)
    if b"co64" in boxes:
        chunks = _read_table(boxes[b"co64"], UINT64)[:, 0]
    else:
        chunks = _read_table(boxes[b"stco"], UINT32)[:, 0]
    # A run of chunks has the same number of frames in each.
    first_chunks, frames_of_chunk, _ = _read_table(boxes[b"stsc"], UINT32, columns=3).T
    lengths_of_runs = np.diff(first_chunks - 1, append=len(chunks))
    frames_of_chunk = _repeat(frames_of_chunk, lengths_of_runs, len(chunks))
    chunk = _repeat(np.arange(len(chunks)), frames_of_chunk, count)
    first_frame = (np.cumsum(frames_of_chunk) - frames_of_chunk)[chunk]
    bytes_before = np.cumsum(sizes) - sizes
    return chunks[chunk] + bytes_before - bytes_before[first_frame], sizes


def _repeat(values: np.ndarray, counts: np.ndarray, total: int) -> np.ndarray:
    """Repeat each value; raises a ``UserError`` if these are not ``total``, in a damaged file."""
    if (counts < 0).any() or counts.sum() != total:
        raise UserError(f"the counts of a table must sum up to {total}")
    return np.repeat(values, counts)


def _read_table(box: bytes, dtype: np.dtype, columns: int = 1) -> np.ndarray:
    """Return the rows (n, columns) of a table whose length is stated after version and flags."""
    (rows,) = struct.unpack_from(">I", box, 4)
    values = np.frombuffer(box, dtype, rows * columns, offset=8)
    return values.reshape(rows, columns).astype(np.int64)
