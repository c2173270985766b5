"""Files whose containers state what is not so: frames and times are those of decoding in order."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.video import index as indexes
from mmvidformer.video.check_files import read_to_end
from mmvidformer.video.containers import TEXT
from mmvidformer.video.encode import encode_video
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.index import index_of
from mmvidformer.video.video import Video
from tests.video.numbered_videos import ALL, write

COUNT = 60
SIZE = (64, 48)


def film(path: Path, codec: str, size: tuple[int, int] = SIZE, **options: str) -> Path:
    """A bright square that moves over a dark pattern, at 25 frames per second."""
    pattern = np.add.outer(np.arange(size[1]), 2 * np.arange(size[0])) % 90
    muxer = {key: options.pop(key) for key in [*options] if key.startswith(("enc", "metadata"))}
    with av.open(str(path), "w", options=muxer) as file:
        stream = file.add_stream(codec, rate=25, options=options)
        (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
        for number in range(COUNT):
            image = np.repeat(pattern[..., None], 3, axis=2).astype(np.uint8)
            image[8:24, number % 40 : number % 40 + 16] = (250, 40 + 2 * number, 90)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        file.mux(stream.encode())
    return path


def without_key_table(path: Path, codec: str, **options: str) -> Path:
    """An MP4 file without ``stss`` states that all frames are key frames."""
    content = film(path, codec, **options).read_bytes()
    assert content.count(b"stss") == 1
    path.write_bytes(content.replace(b"stss", b"free"))
    return path


def cut_stream(path: Path, codec: str, **options: str) -> Path:
    """The last two thirds of a transport stream, which begin between key frames."""
    content = film(path, codec, **options).read_bytes()
    path.write_bytes(content[len(content) // 188 // 3 * 188 :])
    return path


def in_latin_1(path: Path) -> Path:
    """A file whose title is not UTF-8."""
    with av.open(str(film(path.with_name("plain.mp4"), "mpeg4"))) as source:
        with av.open(str(path), "w") as target:
            target.metadata["title"] = "Cafe"
            stream = target.add_stream_from_template(source.streams.video[0])
            for packet in source.demux(video=0):
                if packet.size:
                    packet.stream = stream
                    target.mux(packet)
    content = path.read_bytes()
    assert content.count(b"Cafe") == 1
    path.write_bytes(content.replace(b"Cafe", b"Caf\xe9"))
    return path


FAST = dict(preset="ultrafast", g="20")
FILES: dict[str, Callable[[Path], Path]] = {
    "mpeg4_no_keys.mp4": lambda path: without_key_table(path, "mpeg4", g="20"),
    "h263_no_keys.3gp": lambda path: without_key_table(path, "h263", size=(176, 144), g="20"),
    "h264_no_keys.mp4": lambda path: without_key_table(path, "libx264", **FAST, bf="2"),
    "raw.h264": lambda path: film(path, "libx264", **FAST, bf="2"),
    "raw.hevc": lambda path: film(path, "libx265", **{"x265-params": "log-level=none"}),
    "cut_h264.ts": lambda path: cut_stream(path, "libx264", preset="ultrafast", g="15"),
    "cut_mpeg2.ts": lambda path: cut_stream(path, "mpeg2video", g="15", bf="2"),
    "interlaced.mp4": lambda path: film(path, "libx264", **FAST, flags="+ilme+ildct"),
    "open_gop.mp4": lambda path: film(path, "libx264", g="15", **{"x264-params": "open-gop=1"}),
    "latin_1.mp4": in_latin_1,
    "latin_1.mkv": in_latin_1,
    "latin_1.avi": in_latin_1,
}


def in_order(path: Path) -> tuple[list[np.ndarray], list[float | None]]:
    """Frames and seconds of a file as FFmpeg decodes it from its beginning."""
    with av.open(str(path), **TEXT) as file:
        frames = [(f.to_ndarray(format="rgb24"), f.time) for f in file.decode(video=0)]
    return [image for image, _ in frames], [time for _, time in frames]


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("name", FILES)
def test_single_frames_are_those_of_decoding_in_order(
    tmp_path: Path, name: str, backend: str
) -> None:
    path = FILES[name](tmp_path / name)
    images, seconds = in_order(path)
    assert len(Video.open(path, backend)) == len(images) > 9
    if None not in seconds and path.suffix != ".avi":
        expected = np.array(seconds) - seconds[0]
        np.testing.assert_allclose(Video.open(path, backend).times, expected, atol=1e-6)
    for number in (0, 1, len(images) // 2, len(images) - 1):
        (image,) = Video.open(path, backend).frames([number])
        np.testing.assert_allclose(image, images[number], atol=1, err_msg=str(number))


@pytest.mark.parametrize("backend", ALL)
def test_hidden_frames_are_not_counted(videos, tmp_path: Path, backend: str) -> None:
    """Packets of VP8 that show nothing, as alternate references; the rate varies."""
    content = bytearray(Path(videos["camera"]).read_bytes())
    with av.open(videos["camera"]) as file:
        packets = [bytes(packet) for packet in file.demux(video=0) if packet.size]
    for packet in (packets[9], packets[20]):
        place = content.index(packet)
        content[place] &= ~0b10000  # show_frame
    path = tmp_path / "hidden.webm"
    path.write_bytes(content)
    images, seconds = in_order(path)
    assert len(images) == len(packets) - 2
    video = Video.open(path, backend)
    assert len(video) == len(images)
    np.testing.assert_allclose(video.times, np.array(seconds) - seconds[0], atol=1e-6)
    for number in (8, 9, 19, len(images) - 1):
        np.testing.assert_array_equal(video.frames([number])[0], images[number])


def turned(path: Path, matrix: tuple[int, int, int, int]) -> Path:
    content = bytearray(film(path, "libx264", **FAST).read_bytes())
    place = content.index(b"tkhd") + 44
    a, b, c, d = (65536 * number for number in matrix)
    struct.pack_into(">9i", content, place, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    "matrix",
    [
        *((1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0)),
        *((-1, 0, 0, 1), (1, 0, 0, -1), (0, 1, 1, 0), (0, -1, -1, 0)),
    ],
    ids=str,
)
def test_eight_orientations(tmp_path: Path, matrix: tuple, backend: str) -> None:
    """A point (x, y) goes to (a x + c y, b x + d y), as ISO/IEC 14496-12 says."""
    path = turned(tmp_path / "a.mp4", matrix)
    stored, _ = in_order(path)
    (a, b, c, d), (height, width) = matrix, stored[9].shape[:2]
    y, x = np.mgrid[:height, :width]
    columns, rows = a * x + c * y, b * x + d * y
    columns, rows = columns - columns.min(), rows - rows.min()
    expected = np.zeros((rows.max() + 1, columns.max() + 1, 3), np.uint8)
    expected[rows, columns] = stored[9]
    video = Video.open(path, backend)
    np.testing.assert_array_equal(video.frames([9])[0], expected)
    assert video.mirrored == (a * d - b * c < 0) and video.size == expected.shape[:2]
    assert video.reader.stored_size == (height, width)
    encode_video(str(path), str(tmp_path / "upright.mp4"), crf=1)
    upright = Video.open(tmp_path / "upright.mp4").frames([9])[0]
    assert np.abs(upright.astype(int) - expected).mean() < 3


@pytest.mark.parametrize("backend", ALL)
def test_encrypted_videos_are_refused(tmp_path: Path, backend: str) -> None:
    key = dict.fromkeys(("encryption_key", "encryption_kid"), "0123456789abcdef" * 2)
    path = film(tmp_path / "a.mp4", "libx264", encryption_scheme="cenc-aes-ctr", **key)
    for read in (read_to_end, index_of, lambda path: Video.open(path, backend).frames([0])):
        with pytest.raises(BadVideo, match=r"a\.mp4: its video is encrypted$"):
            read(str(path))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("hours", [2, 20_000])
def test_broken_time_stamps_are_refused(tmp_path: Path, backend: str, hours: int) -> None:
    times = [*range(39), 25 * 3600 * hours]
    path = write(tmp_path / "jump.mkv", "libx264", times, bf="0")
    reason = rf"jump\.mkv: frame 39 comes {hours:,}\.0 hours after .*: its time stamps are broken$"
    with pytest.raises(BadVideo, match=reason):
        len(Video.open(path, backend))
    with pytest.raises(BadVideo, match=reason):
        read_to_end(path)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    "name", [b"12:30:00.mp4", b"a%03d.mp4", b"concat:b.mp4", b"caf\xe9.mp4", b"a\nb.mp4", b"-y.mp4"]
)
def test_names_mean_files_only(videos, tmp_path: Path, monkeypatch, name, backend: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = os.fsdecode(name)
    Path(path).write_bytes(Path(videos["b_frames"]).read_bytes())
    np.testing.assert_array_equal(
        Video.open(path, backend).frames([9])[0], Video.open(videos["b_frames"]).frames([9])[0]
    )
    read_to_end(path)


def test_damage_that_the_decoder_conceals_is_found(tmp_path: Path) -> None:
    """What ``ffmpeg -v error`` reports; the decoder returns all frames nevertheless."""
    path = film(tmp_path / "a.mp4", "libx264", g="12")
    content = bytearray(path.read_bytes())
    with av.open(str(path)) as file:
        packets = [(p.pos, p.size) for p in file.demux(video=0) if p.is_keyframe and p.size]
    place, size = packets[2]
    noise = np.random.default_rng(0).integers(0, 256, size - 40, dtype=np.uint8)
    content[place + 40 : place + size] = noise.tobytes()
    path.write_bytes(content)
    with pytest.raises(BadVideo, match="(its decoder reports damage|frame 24 is damaged)"):
        read_to_end(str(path))
    np.testing.assert_array_equal(Video.open(path).frames([5])[0], in_order(path)[0][5])
    with pytest.raises(BadVideo, match="frame 24 is damaged"):
        Video.open(path).frames([26])


def test_files_of_one_frame_and_none(tmp_path: Path) -> None:
    path = write(tmp_path / "one.mp4", "libx264", [0])
    assert len(Video.open(path)) == 1 and Video.open(path).times.tolist() == [0.0]
    read_to_end(path)
    content = Path(write(tmp_path / "none.mp4", "libx264", movflags="empty_moov+frag_keyframe"))
    content.write_bytes(content.read_bytes()[: content.read_bytes().index(b"moof") - 4])
    for read in (read_to_end, lambda path: len(Video.open(path))):
        with pytest.raises(BadVideo, match=r"none\.mp4: there is no frame in it$"):
            read(str(content))


def test_indexes_are_remembered_up_to_some_bytes(videos, tmp_path: Path, monkeypatch) -> None:
    memory = indexes.IndexMemory(most_bytes=5000)
    monkeypatch.setattr(indexes, "_memory", memory)
    for number in range(20):
        path = tmp_path / f"{number}.mp4"
        path.write_bytes(Path(videos["b_frames"]).read_bytes())
        assert index_of(str(path)) is index_of(str(path))
    assert 1 < len(memory._values) < 5
    assert memory._bytes <= 5000
