"""AVI files state when frames are decoded, not when they are shown."""

from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.video.index import index_of
from mmvidformer.video.video import Video
from tests.video.numbered_videos import ALL

RATE = 20
CODECS = {
    "mjpeg": ("mjpeg", {}),
    "mpeg4": ("mpeg4", {}),
    "mpeg4_b": ("mpeg4", dict(bf="2")),
    "h264": ("libx264", dict(bf="0")),
    "h264_b": ("libx264", dict(bf="3", g="12")),
}
SHOWN = {
    "all": np.arange(40),
    "with_a_gap": np.delete(np.arange(60), np.r_[20:40]),
    "every_second": np.arange(0, 80, 2),
}


def write(path: Path, codec: str, shown: np.ndarray, **options: str) -> Path:
    """Frames that become brighter, of which only those shown are in the file."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=RATE, options=options)
        stream.width, stream.height = 64, 48
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for count, number in enumerate(shown):
            image = np.full((48, 64, 3), 20 + 5 * count, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts = int(number)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path


def from_second_key(source: Path, target: Path) -> Path:
    """The packets of a file from its second key frame on."""
    with av.open(str(source)) as file, av.open(str(target), "w") as part:
        stream = part.add_stream_from_template(file.streams.video[0])
        packets = [packet for packet in file.demux(video=0) if packet.size]
        keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
        start = packets[keys[1]].dts
        for packet in packets[keys[1] :]:
            packet.pts, packet.dts = packet.pts - start, packet.dts - start
            packet.stream = stream
            part.mux(packet)
    return target


def decode(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as file:
        return list(file.decode(video=0))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("name", CODECS)
def test_frames_come_when_they_leave_the_decoder(
    tmp_path: Path, name: str, shown: str, backend: str
) -> None:
    codec, options = CODECS[name]
    path = write(tmp_path / "a.avi", codec, SHOWN[shown], **options)
    times = Video.open(path, backend).times
    frames = decode(path)
    stated = [frame.dts for frame in frames if frame.dts is not None]  # the last ones have none
    assert len(times) == len(frames) == 40 and len(stated) > 35
    expected = (np.array(stated) - stated[0]) / RATE
    np.testing.assert_allclose(times[: len(stated)], expected, atol=1e-6)
    assert times[-1] == pytest.approx((SHOWN[shown][-1] - SHOWN[shown][0]) / RATE)


def test_frames_that_refer_to_what_is_before_the_file_are_not_counted(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.avi", "mpeg4", np.arange(40), bf="2", g="12")
    path = from_second_key(whole, tmp_path / "part.avi")
    frames = decode(path)
    video = Video.open(path)
    with av.open(str(path)) as file:
        assert sum(packet.size > 0 for packet in file.demux(video=0)) > len(frames)
    assert len(video) == len(frames)
    last = frames[-1].to_ndarray(format="rgb24")
    np.testing.assert_allclose(video.frames([len(frames) - 1])[0], last, atol=1)
    np.testing.assert_allclose(video.times, np.arange(len(frames)) / RATE, atol=1e-6)


def test_a_constant_rate_stays_constant(tmp_path: Path) -> None:
    path = write(tmp_path / "a.avi", "mpeg4", SHOWN["every_second"])
    video = Video.open(path)
    assert index_of(str(path)).times.is_constant
    assert video.get_avg_fps() == pytest.approx(RATE / 2)
    assert len(video.at_constant_rate()) == 40
