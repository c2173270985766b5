"""The frames of a file, as they are known without decoding."""

import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.video.errors import BadVideo
from mmvidformer.video.index import index_of
from mmvidformer.video.video import Video
from tests.video.test_rates import CONSTANT, write_at
from tests.video.toys import BURST, write_with_picture


class CountingFile(io.FileIO):
    """A file that counts what is read of it."""

    read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        content = super().read(size)
        self.read_bytes += len(content)
        return content


def write_noise(path: Path, codec: str, movflags: str, **options: str) -> Path:
    """A file of 300 frames of noise, about 10 kB each."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w", options={"movflags": movflags} if movflags else {}) as file:
        stream = file.add_stream(codec, rate=25, options={"g": "25", **options})
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        stream.thread_count = 1
        for _ in range(300):
            image = rng.integers(0, 256, (120, 160, 3), dtype=np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        file.mux(stream.encode())
    return path


def edit(path: Path, parts: Sequence[tuple[float, float]]) -> str:
    """Replace the edit list of a file whose header is at its end by parts: seconds to show."""
    content = path.read_bytes()
    moov, trak, edts = (content.index(name) - 4 for name in (b"moov", b"trak", b"edts"))
    mdhd, mvhd = content.index(b"mdhd"), content.index(b"mvhd")
    (unit,), (movie_unit,) = (
        struct.unpack_from(">I", content, place + 16) for place in (mdhd, mvhd)
    )
    first = struct.unpack_from(">i", content, edts + 8 + 16 + 4)[0]  # of display
    rows = b"".join(
        struct.pack(">iii", round((end - start) * movie_unit), round(start * unit) + first, 1 << 16)
        for start, end in parts
    )
    elst = struct.pack(">I4sII", 16 + len(rows), b"elst", 0, len(parts)) + rows
    new = struct.pack(">I4s", 8 + len(elst), b"edts") + elst
    (old,) = struct.unpack_from(">I", content, edts)
    content = bytearray(content[:edts] + new + content[edts + old :])
    for box in (moov, trak):
        (size,) = struct.unpack_from(">I", content, box)
        struct.pack_into(">I", content, box, size + len(new) - old)
    path.write_bytes(content)
    return str(path)


def edited(*parts: tuple[float, float], **options: str) -> Callable[[Path], str]:
    """Returns a function that writes a file of 100 frames with an edit list."""

    def make(path: Path) -> str:
        write_at(path, np.arange(100) / 25, g="12", bf="3", **options)
        return edit(path, parts)

    return make


FILES = {
    **{name: make for name, (make, _) in CONSTANT.items()},
    "from_the_middle.mp4": edited((1.3, 4.0)),
    "the_middle.mov": edited((1.3, 2.6)),
    "two_parts.mp4": edited((0.0, 1.0), (2.0, 3.0)),
    "backwards.mp4": edited((2.0, 3.0), (0.0, 1.0)),
    "twice.mp4": edited((1.0, 2.0), (1.0, 2.0)),
    "waits.mp4": lambda path: write_at(path, 3 + np.arange(100) / 25, bf="2"),
    "variable.mp4": lambda path: write_at(path, BURST, bf="2"),
    "variable.mkv": lambda path: write_at(path, BURST, bf="2"),
    "picture_first.mp4": lambda path: str(write_with_picture(path)),
}


def demuxed(path: str) -> tuple[list[int], list[int]]:
    """Times of display in order, and numbers of key frames, of all packets."""
    with av.open(path) as file:
        packets = [packet for packet in file.demux(file.streams.best("video")) if packet.size]
    shown = [packet for packet in packets if not packet.is_discard]
    times = sorted(packet.pts for packet in shown)
    keys = {times.index(packet.pts) for packet in shown if packet.is_keyframe}
    return times, sorted(keys | ({0} if packets and packets[0].is_keyframe else set()))


@pytest.mark.parametrize("name", FILES)
def test_the_times_are_those_of_the_packets(tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path / name)
    times, keys = demuxed(path)
    index = index_of(path)
    assert index.length == len(times)
    if index.stamps is None:  # AVI, and times that stand twice
        assert name == "avi.mp4" or len(set(times)) < len(times)
        return
    assert index.stamps.tolist() == times and index.keys.tolist() == keys
    with av.open(path) as file:
        unit = float(file.streams.best("video").time_base)
    np.testing.assert_allclose(index.times.starts, (np.array(times) - times[0]) * unit)


@pytest.mark.parametrize("name", FILES)
def test_frames_are_those_that_ffmpeg_shows(tmp_path: Path, name: str) -> None:
    """In any order, whatever the edit list."""
    path = FILES[name](tmp_path / name)
    with av.open(path) as file:
        stream = file.streams.best("video")
        frames = [(frame.pts, frame.to_ndarray(format="rgb24")) for frame in file.decode(stream)]
    frames = sorted(frames[:120], key=lambda frame: frame[0])
    video = Video.open(path)
    rng = np.random.default_rng(0)
    for _ in range(3):
        numbers = rng.integers(0, len(frames), 5)
        for number, image in zip(numbers, video.frames(numbers), strict=True):
            np.testing.assert_array_equal(image, frames[number][1], err_msg=str(number))


FAST = dict(preset="ultrafast", crf="20")


@pytest.mark.parametrize(
    ("movflags", "codec", "options", "reads_all"),
    [
        ("", "libx264", dict(FAST, bf="0"), False),
        ("faststart", "libx264", dict(FAST, bf="0"), False),
        ("", "mpeg4", {}, False),
        ("", "libx264", dict(FAST, bf="2"), False),
        ("faststart", "libx264", dict(FAST, bf="2"), False),
        ("negative_cts_offsets", "libx264", dict(FAST, bf="2"), False),
        ("frag_keyframe", "libx264", dict(FAST, bf="0"), True),
        ("frag_keyframe+empty_moov", "libx264", dict(FAST, bf="2"), True),
    ],
)
def test_the_index_is_read_from_the_header_where_it_is_right(
    tmp_path: Path, movflags: str, codec: str, options: dict, reads_all: bool
) -> None:
    """Files in fragments are read to their end."""
    path = write_noise(tmp_path / "a.mp4", codec, movflags, **options)
    with CountingFile(path) as file:
        index = index_of(file)
    times, keys = demuxed(str(path))
    assert index.stamps.tolist() == times and index.keys.tolist() == keys
    assert (index.length, index.times.rate) == (300, 25)
    share = file.read_bytes / path.stat().st_size
    assert share >= 1 if reads_all else share < 0.2  # with PyAV 17, that of the first frames


@pytest.mark.parametrize("name", [b"ctts", b"stsz", b"stsc", b"stco", b"tkhd", b"moov"])
def test_a_header_that_is_damaged_is_not_believed(tmp_path: Path, name: bytes) -> None:
    """Then the packets count, or FFmpeg refuses the file."""
    path = Path(write_at(tmp_path / "a.mp4", np.arange(50) / 25, bf="2"))
    content = path.read_bytes()
    place = content.index(name)
    rng = np.random.default_rng(0)
    for _ in range(30):
        damaged = bytearray(content)
        places = place + 4 + rng.integers(0, 24, size=2)
        damaged[places[0]], damaged[places[1]] = rng.integers(0, 256, size=2).tolist()
        path.write_bytes(damaged)
        try:
            index = index_of(str(path))
        except BadVideo:
            continue
        times, _ = demuxed(str(path))
        assert index.stamps is None or index.stamps.tolist() == times


def test_a_file_that_was_cut_has_the_frames_that_are_left(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.mp4", "libx264", "faststart", **FAST, bf="2")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert 100 < index_of(str(path)).length < 200
