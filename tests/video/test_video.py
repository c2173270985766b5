"""Videos from all sources: their seconds, and the frames that are shown at them."""

import io
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.video.times import FrameTimes
from mmvidformer.video.video import Video
from tests.video.numbered_videos import FRAMES, number_of
from tests.video.toys import BURST, read_clock, shown_at, write_clock

STARTS = np.round(25 * np.array(BURST)) / 25  # as written


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """A file of variable rate, of 33 frames in 4.5 s."""
    write_clock(tmp_path / "v.mp4")
    return tmp_path / "v.mp4"


@pytest.mark.parametrize("read", [str, Path, Path.read_bytes, lambda path: path.open("rb")])
@pytest.mark.parametrize("kind", ["b_frames", "uneven", "vp9.webm", "mpeg4.avi", "stream.ts"])
def test_a_video_is_a_path_or_bytes_or_a_file_object(videos, kind: str, read) -> None:
    path = Path(videos[kind])
    whole, video = Video.open(path), Video.open(read(path))
    numbers = [17, 3, 38, 3]
    assert [number_of(image) for image in video.frames(numbers)] == numbers
    assert len(video) == FRAMES
    np.testing.assert_array_equal(video.times, whole.times)
    assert [number_of(image) for image in video.frames([20, 1])] == [20, 1]  # with the index


def test_an_array_is_a_video() -> None:
    array = np.random.default_rng(0).integers(0, 256, (10, 4, 6, 3), dtype=np.uint8)
    video = Video.open(array, rate=5)
    assert (len(video), video.duration, video.size, video.rotation) == (10, 2.0, (4, 6), 0)
    np.testing.assert_array_equal(video.times, np.arange(10) / 5)
    np.testing.assert_array_equal(video.frames([7, 2]), array[[7, 2]])
    assert not np.shares_memory(video.frames([7])[0], array)
    with pytest.raises(ValueError, match="the array: its frame rate is unknown"):
        Video.open(array).at(1.0)
    with pytest.raises(ValueError, match=r"must be \(T, H, W, 3\) of type uint8, got \(10, 4, 6\)"):
        Video.open(array[..., 0])


def test_an_array_of_one_frame_or_none() -> None:
    array = np.random.default_rng(0).integers(0, 256, (1, 4, 6, 3), dtype=np.uint8)
    video = Video.open(array, rate=5)
    assert (video.times.tolist(), video.duration, video.at(-1.0), video.at(9.0)) == ([0], 0.2, 0, 0)
    assert video.between(0, 1) == video.between(5, 9) == range(0, 1)
    empty = Video.open(array[:0], rate=5)
    for call in (len, lambda video: video.size, lambda video: video.frames([0])):
        with pytest.raises(ValueError, match="there is no frame in it"):
            call(empty)


@pytest.mark.parametrize("kind", ["path", "bytes", "file"])
def test_threads_may_share_a_video(videos, kind: str) -> None:
    path = Path(videos["b_frames"])
    source = {"path": path, "bytes": path.read_bytes(), "file": io.BytesIO(path.read_bytes())}[kind]
    video = Video.open(source)

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(10):
            numbers = random.integers(0, FRAMES, 3).tolist()
            assert [number_of(image) for image in video.frames(numbers)] == numbers

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read, range(4)))


def test_seconds_are_those_of_the_container(burst: Path) -> None:
    video = Video.open(burst)
    np.testing.assert_allclose(video.times, STARTS)
    assert video.times.dtype == np.float64
    assert video.duration == pytest.approx(4.52)
    for seconds in (0.0, 0.039, 0.04, 0.97, 1.2, 1.52, 4.4, 4.5, 9.0, -1.0):
        wanted = shown_at(np.clip(seconds, 0, 4.5), STARTS)
        assert video.times[video.at(seconds)] == pytest.approx(wanted), seconds
    assert video.at(np.array([0.0, 1.2, 9.0])).tolist() == [0, 25, 32]
    np.testing.assert_allclose(read_clock(video.frames([25, 32])), [1, 4.5], atol=0.05)


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        (0.0, 0.08, 0, 1),
        (0.0, 9.0, 0, 32),
        (1.1, 1.4, 25, 25),  # in a pause
        (1.1, 1.5, 25, 25),
        (1.1, 1.53, 25, 26),
        (4.5, 4.5, 32, 32),
    ],
)
def test_a_part_has_the_frames_that_are_shown_in_it(
    burst: Path, start: float, end: float, first: int, last: int
) -> None:
    frames = Video.open(burst).between(start, end)
    assert (frames[0], frames[-1]) == (first, last)


def test_frames_at_a_constant_rate_are_those_shown(burst: Path) -> None:
    video = Video.open(burst)
    steady = video.at_constant_rate()
    assert (len(steady), steady.get_avg_fps()) == (113, 25)
    assert steady.duration == pytest.approx(4.52)
    np.testing.assert_allclose(steady.times, np.arange(113) / 25)
    assert steady.at_constant_rate() is steady
    assert len(video) == len(BURST)


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_rotation_and_size(videos, turns: int) -> None:
    """The tag of turns clockwise, as telephones write it."""
    content = bytearray(Path(videos["b_frames"]).read_bytes())
    cosine, sine = round(np.cos(turns * np.pi / 2)), round(np.sin(turns * np.pi / 2))
    matrix = [cosine << 16, sine << 16, 0, -sine << 16, cosine << 16, 0, 0, 0, 1 << 30]
    place = content.index(b"tkhd") + 44
    content[place : place + 36] = struct.pack(">9i", *matrix)
    video = Video.open(bytes(content))
    assert video.rotation == -90 * turns % 360
    assert video.size == ((64, 48) if turns % 2 else (48, 64))
    assert video.reader.stored_size == (48, 64)


@pytest.mark.parametrize("starts", [None, [0, 0.5, 1, 4], [0, 1, 2, 3]])
def test_numbers_and_seconds_are_inverse(starts: list[float] | None) -> None:
    times = FrameTimes(2.0, None if starts is None else np.array(starts, float))
    numbers = np.array([0, 0.25, 1, 2.5, 3, 7])
    np.testing.assert_allclose(times.numbers(times.seconds(numbers)), numbers)
    seconds = [0, 0.5, 1, 3.999, 4] if starts is None or starts[1] == 0.5 else [0, 1, 2, 3]
    shown = {None: [0, 1, 2, 7, 8], 0.5: [0, 1, 2, 2, 3], 1: [0, 1, 2, 3]}[starts and starts[1]]
    assert times.at(np.array(seconds)).tolist() == shown


def test_a_file_object_is_read_from_its_begin(videos) -> None:
    file = io.BytesIO(Path(videos["b_frames"]).read_bytes())
    file.seek(1000)
    with pytest.raises(Exception, match=r"."):
        Video.open(io.BytesIO(file.read()))
    assert number_of(Video.open(file).frames([5])[0]) == 5
