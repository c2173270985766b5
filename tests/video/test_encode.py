"""Videos that are re-encoded for training."""

from fractions import Fraction

import decord
import numpy as np
import pytest

av = pytest.importorskip("av", minversion="17")

from mmvidformer.video.encode import encode_video  # noqa: E402
from mmvidformer.video.errors import BadVideo  # noqa: E402
from mmvidformer.video.video import Video  # noqa: E402
from stress.prepare_videos import number_in, picture  # noqa: E402

# Whether PyAV writes rotation tags.
TURNS = hasattr(av.VideoStream, "set_display_rotation")


def write(path, rate=25, size=(96, 64), count=40, turns=0, codec="libx264", times=None, **tags):
    """Write a video whose frames show their numbers, upright after ``turns`` quarter turns."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=rate, options={"crf": "5"})
        stream.width, stream.height = size[::-1] if turns % 2 else size
        stream.pix_fmt = "yuvj444p" if codec == "mjpeg" else "yuv420p"
        for name, value in tags.items():
            setattr(stream.codec_context, name, value)
        if turns:
            stream.set_display_rotation(90 * turns)
        for number in range(count):
            image = np.rot90(picture(number, size), -turns)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")
            frame.time_base = Fraction(1, rate)
            frame.pts = times[number] if times else number
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path


def encode(path, **options):
    """Re-encode a video; return the numbers that its frames show, and its images."""
    target = path.parent / "new" / "video.mp4"
    target.unlink(missing_ok=True)
    encode_video(str(path), str(target), **options)
    reader = Video.open(str(target), "pyav")
    images = reader.get_batch(range(len(reader)))
    assert [path.name for path in target.parent.iterdir()] == ["video.mp4"]
    return [number_in(image) for image in images], images, target


@pytest.mark.parametrize("name, codec", [("a.mp4", "libx264"), ("a.avi", "mpeg4")])
def test_all_frames_with_near_key_frames(tmp_path, name, codec):
    numbers, images, target = encode(write(tmp_path / name, codec=codec), key_frames=7)
    assert numbers == list(range(40)) and images[0].shape == (64, 96, 3)
    with av.open(str(target)) as file:
        (stream,) = file.streams
        keys = [i for i, p in enumerate(p for p in file.demux() if p.size) if p.is_keyframe]
        assert stream.codec_context.name == "h264" and float(stream.average_rate) == 25
    assert max(np.diff([*keys, 40])) <= 7


@pytest.mark.parametrize(
    "size, short_side, wanted",
    [
        ((96, 64), 256, (96, 64)),
        ((96, 64), 32, (48, 32)),
        ((64, 96), 32, (32, 48)),
        ((340, 256), 128, (170, 128)),
        ((65, 49), 256, (64, 48)),
        ((101, 64), 31, (48, 32)),
    ],
)
def test_size(tmp_path, size, short_side, wanted):
    path = write(tmp_path / "a.avi", size=size, count=3, codec="mjpeg")
    numbers, images, _ = encode(path, short_side=short_side)
    assert images[0].shape[1::-1] == wanted and numbers == [0, 1, 2]


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([0, 1, 2, 3, 5, 6], [0, 1, 2, 3, 4, 5]),  # less than a frame off
        ([0, 1, 2, 3, 9, 10], [0, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5]),
        ([0, 1, 2, 2.4, 2.8, 3.2, 4, 5, 9, 10], [0, 1, 3, 5, 6, 7, 7, 7, 7, 8, 9]),
    ],
    ids=["kept", "repeated", "left out"],
)
def test_the_rate_of_the_result_is_constant(tmp_path, times, shown):
    """In units of 1/25 s; the rate is that of the median distance."""
    ticks = [round(time * 10) for time in times]
    numbers, _, target = encode(write(tmp_path / "a.mp4", rate=250, times=ticks, count=len(times)))
    with av.open(str(target)) as file:
        found = [float(frame.time) for frame in file.decode(video=0)]
        rate = float(file.streams.video[0].average_rate)
    np.testing.assert_allclose(found, np.arange(len(found)) / rate, atol=1e-4)
    assert numbers == shown


@pytest.mark.skipif(not TURNS, reason="this PyAV cannot write rotation tags")
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_rotation_tags(tmp_path, turns):
    path = write(tmp_path / "a.mp4", turns=turns, count=3)
    assert encode(path)[0] == [0, 1, 2]
    target = encode(path)[2]
    with av.open(str(target)) as file:
        assert next(file.decode(video=0)).rotation == 0


@pytest.mark.parametrize("colorspace, color_range", [(1, 1), (5, 1), (1, 2), (5, 2)])
def test_colors_stay(tmp_path, colorspace, color_range):
    tags = dict(colorspace=colorspace, color_range=color_range)
    path = write(tmp_path / "a.mp4", size=(64, 96), count=2, **tags)  # decord2: not 96 wide
    target = encode(path, crf=5)[2]
    for read in (decord.VideoReader, Video.open):
        old, new = (read(str(one)).get_batch([0]).asnumpy()[0] for one in (path, target))
        assert np.abs(old.astype(int) - new).mean() < 1


@pytest.mark.skipif(not TURNS, reason="this PyAV cannot write rotation tags")
@pytest.mark.parametrize("colorspace, color_range", [(1, 1), (5, 2)])
def test_colors_of_turned_videos_stay(tmp_path, colorspace, color_range):
    tags = dict(colorspace=colorspace, color_range=color_range)
    path = write(tmp_path / "a.mp4", size=(96, 64), count=2, turns=1, **tags)
    (old,) = Video.open(str(path), "pyav").get_batch([0])
    new = encode(path, crf=5)[1][0]
    assert np.abs(old.astype(int) - new).mean() < 1


@pytest.mark.parametrize(
    "content, reason", [(b"", "damaged"), (b"text\n", "damaged"), (None, "No such file")]
)
def test_bad_videos(tmp_path, content, reason):
    path, target = tmp_path / "a.mp4", tmp_path / "b.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadVideo, match=reason):
        encode_video(str(path), str(target))
    assert not target.exists() and not [*tmp_path.glob(".*")]


def test_a_video_that_ends_early_is_bad(tmp_path):
    path = encode(write(tmp_path / "a.mp4"))[2]  # with the index first
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(BadVideo):
        encode(path)


def test_sound_alone_is_bad(tmp_path):
    with av.open(str(tmp_path / "a.mp4"), "w") as file:
        stream = file.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        file.mux(stream.encode(frame))
        file.mux(stream.encode())
    with pytest.raises(ValueError, match="no video stream"):
        encode(tmp_path / "a.mp4")


def test_an_existing_result_stays(tmp_path):
    path, target = write(tmp_path / "a.mp4", count=2), tmp_path / "b.mp4"
    target.write_text("result")
    encode_video(str(path), str(target))
    assert target.read_text() == "result"
