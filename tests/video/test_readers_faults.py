"""Videos that lack frames or cannot be read, and libraries that are missing."""

import sys
from pathlib import Path
from types import ModuleType

import av
import numpy as np
import pytest
from mmengine.dataset import Compose

from mmvidformer.data.transforms.decode import VideoDecode, VideoInit
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.index import Index
from mmvidformer.video.readers import READERS
from mmvidformer.video.times import FrameTimes
from mmvidformer.video.video import Video
from tests.video.numbered_videos import ALL, FRAMES, number_of, results_of, write
from tests.video.toys import write_sound


@pytest.mark.parametrize("backend", ALL)
def test_frames_beyond_the_last_are_counted_with_a_warning(videos, backend):
    decode = Compose([VideoInit(backend), VideoDecode()])
    with pytest.warns(UserWarning, match=r"b\.mp4: 2 of 3 sampled frames lie beyond its 40"):
        results = decode(results_of(videos["b_frames"], 39, 40, 55))
    assert [number_of(image) for image in results["imgs"]] == [39, 39, 39]


@pytest.mark.parametrize("kind", ["b_frames", "mpeg4.avi"])
def test_a_container_that_counts_too_many_frames(videos, kind):
    reader = Video.open(videos[kind])
    reader.reader.index = Index(FRAMES + 5, FrameTimes(25))
    results = results_of(videos[kind], 38, 42)
    with pytest.warns(UserWarning, match="1 of 2 .* its 40 frames"):
        results = VideoDecode()(dict(results, video_reader=reader))
    assert [number_of(image) for image in results["imgs"]] == [38, 39]


@pytest.mark.parametrize("backend", ALL)
def test_a_file_without_video_stream_is_named(tmp_path, backend):
    path = tmp_path / "sound.mp4"
    write_sound(path)
    with pytest.raises((ValueError, RuntimeError), match="(no|find|best) video stream"):
        VideoInit(backend)(dict(filename=str(path)))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "bad.mp4: the file is empty"),
        (b"no video at all" * 100, "bad.mp4: it is damaged, cut off, or no video"),
        (None, "No such file or directory"),
    ],
    ids=["empty", "text", "missing"],
)
def test_a_bad_file_raises(tmp_path, backend, content, reason):
    path = tmp_path / "bad.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadVideo, match=reason):
        VideoInit(backend)(dict(filename=str(path)))


@pytest.mark.parametrize("backend", ALL)
def test_a_cut_file_gives_its_frames_or_says_so(videos, tmp_path, backend):
    """The end of a webm is missing: all that can be had is exact, nothing is made up."""
    path = tmp_path / "cut.webm"
    content = open(videos["vp9.webm"], "rb").read()
    path.write_bytes(content[: len(content) * 2 // 3])
    decode = Compose([VideoInit(backend), VideoDecode()])
    try:
        with pytest.warns(UserWarning, match="1 of 3 sampled frames"):
            results = decode(results_of(str(path), 0, 5, 39))
    except BadVideo:
        return
    assert [number_of(image) for image in results["imgs"][:2]] == [0, 5]


@pytest.mark.parametrize("backend", ALL)
def test_a_truncated_file_raises(videos, tmp_path, backend):
    """The header counts more frames than there are; messages have no place in the source code."""
    path, content = tmp_path / "cut.mp4", Path(videos["header_first"]).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BadVideo) as caught:
        Video.open(str(path), backend).get_batch(np.arange(FRAMES))
    assert ".cpp:" not in caught.value.reason and ".cc:2" not in caught.value.reason


def test_a_video_without_frames_raises(tmp_path):
    path = tmp_path / "none.avi"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        file.start_encoding()
    with pytest.raises(BadVideo, match="there is no frame in it"):
        VideoInit()(dict(filename=str(path)))
    with pytest.raises(BadVideo, match="there is no frame in it"):
        Video.open(str(path)).get_batch([0])


# Files that name others: the first frame of "seg.ts" must not be read through them.
LISTS = {
    "a.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.6,\nseg.ts\n#EXT-X-ENDLIST\n",
    "b.mp4": "ffconcat version 1.0\nfile seg.ts\n",
    "c.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
    "m=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
}


@pytest.mark.parametrize("backend", READERS)
@pytest.mark.parametrize("name", LISTS)
def test_files_that_name_other_files_are_refused(videos, tmp_path, name, backend):
    (tmp_path / "seg.ts").write_bytes(Path(videos["stream.ts"]).read_bytes())
    path = tmp_path / name
    path.write_text(LISTS[name])
    with pytest.raises(ValueError, match="(its format is none of mov,matroska,|no video$)"):
        Video.open(str(path), backend)


def test_larger_frames_are_not_decoded(videos, tmp_path):
    small, large = tmp_path / "small.ts", tmp_path / "large.ts"
    write(small, "libx264")
    write(large, "libx264", size=(128, 96))
    small.write_bytes(small.read_bytes() + large.read_bytes())
    limit = 64 * 48
    with pytest.raises(ValueError, match="at most 3072 pixels, got 128x96"):
        Video.open(str(large), max_pixels=limit)
    reader = Video.open(str(small))
    for number, shape in ((0, (48, 64, 3)), (FRAMES + 9, (96, 128, 3))):
        assert reader.get_batch([number])[0].shape == shape
    with pytest.raises(ValueError, match=r"must have one size, got \[\(48, 64\), \(96, 128\)\]"):
        reader.get_batch([0, FRAMES + 9])
    limited = Video.open(str(small), max_pixels=limit)
    assert number_of(limited.get_batch([0])[0]) == 0
    with pytest.raises(BadVideo):
        limited.get_batch([FRAMES + 9])
    with pytest.raises(ValueError, match="max_pixels=3072 needs backend='pyav', got 'decord'"):
        VideoInit("decord", max_pixels=limit)


def test_pyav_reads_local_files_only():
    with pytest.raises(ValueError, match="io_backend='petrel' needs backend='decord', got 'pyav'"):
        VideoInit(io_backend="petrel")


def test_an_unknown_backend_is_refused():
    with pytest.raises(
        KeyError, match="no video backend named 'ffmpeg'; choose from decord, pyav, torchcodec"
    ):
        VideoInit("ffmpeg")


def test_missing_libraries_of_ffmpeg_are_named(videos, monkeypatch):
    """TorchCodec can be imported without them."""
    fake = ModuleType("torchcodec")
    fake.ffmpeg_major_version = None
    monkeypatch.setitem(sys.modules, "torchcodec", fake)
    with pytest.raises(ImportError, match=r"^to decode .* TorchCodec install .* FFmpeg 4 .*\)$"):
        Video.open(videos["b_frames"], "torchcodec")
