"""Files whose frames do not have the times that their numbers and the frame rate tell."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.apis import Capture
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.facts import require_rate
from mmvidformer.video.index import require_constant_rate
from mmvidformer.video.video import Video
from tests.video.numbered_videos import picture
from tests.video.toys import BURST, write

NTSC = Fraction(30000, 1001)
TICKS = 600  # per second, in which the files below have their times


def write_at(
    path: Path, seconds: Sequence[float], rate: Fraction | int = 25, **options: str
) -> str:
    """Write a file whose frames have times, and which states a rate if its format does."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, TICKS * rate.numerator)
        for number, time in enumerate(seconds):
            frame = av.VideoFrame.from_ndarray(picture(number % 40), "rgb24")
            frame.pts = round(time / stream.codec_context.time_base)
            frame.time_base = stream.codec_context.time_base
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return str(path)


def regular(count: int = 100, rate: float = 25.0) -> np.ndarray:
    return np.arange(count) / rate


def cut(path: Path) -> str:
    """A file whose edit list begins in the middle, as phones write it after trimming."""
    whole = write_at(path.with_name(f"whole{path.suffix}"), regular(), g="25", bf="2")
    with av.open(whole) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                # Negative times become an edit.
                shift = round(1.5 / packet.time_base)
                packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
                if packet.pts >= round(-0.5 / packet.time_base):
                    target.mux(packet)
    return str(path)


# Files that are all right, and their rate.
CONSTANT: dict[str, tuple[Callable[[Path], str], float]] = {
    "b_frames.mp4": (lambda path: write_at(path, regular(), bf="3"), 25),
    "late.mp4": (lambda path: write_at(path, 0.7 + regular()), 25),
    "late.mkv": (lambda path: write_at(path, 0.7 + regular()), 25),
    "ntsc.mkv": (lambda path: write_at(path, regular(3000, NTSC), NTSC, g="250"), float(NTSC)),
    "ntsc.ts": (lambda path: write_at(path, regular(100, NTSC), NTSC), float(NTSC)),
    "fast.mkv": (lambda path: write_at(path, regular(240, 240), 240), 240),
    "jitter.mp4": (lambda path: write_at(path, regular() + [0, 0.015, 0, -0.015] * 25), 25),
    "one_dropped.mp4": (lambda path: write_at(path, np.delete(regular(), 50)), 24.75),
    "one_dropped.mkv": (lambda path: write_at(path, np.delete(regular(), 50)), 25),
    "one_twice.mp4": (lambda path: write_at(path, np.insert(regular(), 50, 1.98)), 25.25),
    "edited.mp4": (cut, 25),
    # The mean counts how long the last frame is shown; and a header may be wrong.
    "header.mkv": (lambda path: write_at(path, regular(100, 10), 25), 10),
    "one_frame.mp4": (lambda path: write_at(path, [0]), 25),
    "avi.mp4": (lambda path: str(write(path, container="avi") or path), 25),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_files_of_a_constant_rate_are_read(tmp_path: Path, name: str) -> None:
    make, rate = CONSTANT[name]
    path = make(tmp_path / name)
    fps = Video.open(path).get_avg_fps()
    assert fps == pytest.approx(rate, rel=0.005)
    require_constant_rate(path, fps)
    with Capture(path) as capture:
        assert capture.fps == fps


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_files_of_a_variable_rate_can_be_numbered_by_time(tmp_path: Path, suffix: str) -> None:
    path = write_at(tmp_path / f"burst.{suffix}", BURST, bf="2")
    reader = Video.open(path)
    assert len(reader.get_batch(range(len(reader)))) == len(BURST)
    wanted = r"its frame rate varies \(frame \d+ is at \d\.\d\d s, not at \d+\.\d\d s\); read it "
    remedy = "with VideoInit, or make it constant: ffmpeg -i IN -vf fps=25 OUT, or mmvidformer data"
    with pytest.raises(BadVideo, match=wanted + remedy):
        require_constant_rate(path, reader.get_avg_fps())

    whole = reader.get_batch(range(len(BURST)))
    reader = reader.at_constant_rate()
    assert (len(reader), reader.get_avg_fps()) == (113, 25)
    numbers = [0, 7, 24, 25, 30, 37, 38, 50, 112, 112, 3]
    wanted = [0, 7, 24, 25, 25, 25, 26, 27, 32, 32, 3]  # 12.5 frames are between two
    images = reader.get_batch(numbers)
    for image, number in zip(images, wanted, strict=True):
        assert (image == whole[number]).all()
    with pytest.warns(UserWarning, match="1 of 2 sampled frames lie beyond its 113 frames"):
        assert (reader.get_batch([112, 113])[1] == whole[32]).all()


@pytest.mark.parametrize(
    ("seconds", "is_constant"),
    [
        (np.delete(regular(), [50, 51]), True),
        (np.delete(regular(), slice(50, 56)), False),  # three frames off at both sides
        (np.insert(regular(), [0] * 30, -np.arange(1, 31)[::-1] / 50), False),
    ],
    ids=["two dropped", "six dropped", "double rate at the start"],
)
def test_one_frame_is_the_limit(tmp_path: Path, seconds: np.ndarray, is_constant: bool) -> None:
    path = write_at(tmp_path / "film.mp4", seconds - seconds[0])
    expectation = nullcontext() if is_constant else pytest.raises(BadVideo, match="rate varies")
    with expectation:
        require_constant_rate(path, Video.open(path).get_avg_fps())


@pytest.mark.parametrize("fps", [0.0, None])
def test_a_rate_that_is_unknown_is_refused(fps: float | None) -> None:
    with pytest.raises(BadVideo, match=r"^film\.mp4: its frame rate is unknown$"):
        require_rate("film.mp4", fps)
