"""Frames by number, the same from each library."""

import gc
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import av
import cv2
import decord
import numpy as np
import pytest
from mmaction.datasets.transforms import ArrayDecode, DecordDecode, DecordInit
from mmengine.dataset import Compose

from mmvidformer.data.transforms.decode import VideoDecode, VideoInit
from mmvidformer.video import index, pyav_reader
from mmvidformer.video.pyav_reader import PyAVReader
from mmvidformer.video.video import Video
from tests.video.numbered_videos import (
    ALL,
    FRAMES,
    needs_torchcodec,
    number_of,
    results_of,
)


def test_a_camera_recorded_by_a_browser_has_a_rate(videos, tmp_path: Path) -> None:
    """Its frames come when they can, and the file states no rate."""
    content = Path(videos["camera"]).read_bytes()
    void = content.replace(b"\x23\xe3\x83\x84", b"\xec\x86\x00\x00")  # the duration of a frame
    assert void != content
    path = tmp_path / "camera.webm"
    path.write_bytes(void)
    with av.open(str(path)) as container:
        assert not container.streams.video[0].average_rate  # None, or 0/0 from PyAV 19 on
    assert Video.open(str(path)).get_avg_fps() == pytest.approx((FRAMES - 1) / ((39 + 13) / 25))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("kind", ["b_frames", "one_key", "uneven", "mpeg4.avi", "vp9.webm"])
def test_each_backend_gives_the_frames_asked_for(videos, backend, kind):
    def read(indices):
        return Video.open(videos[kind], backend).get_batch(indices)

    assert len(Video.open(videos[kind], backend)) == FRAMES
    whole = read(np.arange(FRAMES))
    assert [number_of(image) for image in whole] == list(range(FRAMES))
    assert whole[0].dtype == np.uint8 and whole[0][20, 10, 0] > 180 > 80 > whole[0][20, 10, 2]
    for some in ([0], [39], [11, 12, 13], [3, 30], [25, 27, 36]):
        np.testing.assert_array_equal(read(np.array(some)), np.stack(whole)[some])
    pyav = Video.open(videos[kind], "pyav").get_batch(np.arange(FRAMES))
    np.testing.assert_array_equal(whole, pyav)


def test_few_frames_are_kept_of_large_ones(videos, monkeypatch):
    video, numbers = Video.open(videos["b_frames"]), [5, 2, 30, 5, 3]
    whole = video.frames(range(FRAMES))
    monkeypatch.setattr(pyav_reader, "MOST_PIXELS", 1)
    for _ in range(2):
        images = video.frames(numbers)
        np.testing.assert_array_equal(images, np.stack(whole)[numbers])
        assert [*video.reader._state.wanted] == [30]


@pytest.mark.parametrize("after", [VideoDecode, DecordDecode])
@pytest.mark.parametrize("backend", ALL)
def test_order_and_repetitions_are_those_of_the_sampler(videos, backend, after):
    decode = Compose([VideoInit(backend), after()])
    results = decode(results_of(videos["b_frames"], 17, 3, 17, 38, 3))
    assert [number_of(image) for image in results["imgs"]] == [17, 3, 17, 38, 3]
    assert results["total_frames"] == FRAMES and results["avg_fps"] == pytest.approx(25)
    assert results["img_shape"] == results["original_shape"] == (48, 64)
    assert results["video_reader"] is None
    cv2.flip(results["imgs"][0], 1, results["imgs"][0])  # in place, as MMAction2's Flip
    assert results["imgs"][2][20, 10, 0] > 180


def test_other_decoders(videos):
    """DecordDecode takes a video of VideoInit, and VideoDecode one of DecordInit."""
    for opening in (DecordInit(), VideoInit("decord")):
        results = Compose([opening, VideoDecode()])(results_of(videos["b_frames"], 17, 3))
        assert type(results["imgs"]) is list
        assert [number_of(image) for image in results["imgs"]] == [17, 3]


@needs_torchcodec
def test_each_frame_is_decoded_once(videos, monkeypatch):
    from torchcodec.decoders import VideoDecoder

    asked, decode = [], VideoDecoder.get_frames_at
    monkeypatch.setattr(
        VideoDecoder, "get_frames_at", lambda s, i: asked.append(list(i)) or decode(s, i)
    )
    ten_views = [start + k for start in (0, 2, 4) for k in range(0, 8, 2)]
    Compose([VideoInit("torchcodec"), VideoDecode()])(results_of(videos["b_frames"], *ten_views))
    assert asked == [[0, 2, 4, 6, 8, 10]]


@pytest.mark.parametrize("backend", ALL)
def test_videos_are_upright(videos, tmp_path, backend):
    """The tag of a quarter turn clockwise, as telephones write it: red is on top."""
    content = bytearray(Path(videos["b_frames"]).read_bytes())
    matrix = content.index(b"tkhd") + 44
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30)
    path = tmp_path / "turned.mp4"
    path.write_bytes(content)
    (image,) = Video.open(str(path), backend).get_batch([9])
    (stored,) = Video.open(videos["b_frames"]).get_batch([9])
    np.testing.assert_array_equal(image, np.rot90(stored, -1))
    assert image.shape == (64, 48, 3) and image[10, 20, 0] > 180 > 80 > image[10, 20, 2]


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("name", ["named.mp4", "stream.ts", "stream.mpg"])
def test_containers_are_known_by_their_content(videos, backend, name, tmp_path):
    """AVI with another extension; MPEG streams, in which seeking is not exact."""
    path = tmp_path / name
    if name == "named.mp4":
        path.write_bytes(Path(videos["mpeg4.avi"]).read_bytes())
    else:
        path = Path(videos[name])
    for some in ([39], [25, 27, 36], [0, 13, 14]):
        images = Video.open(str(path), backend).get_batch(np.array(some))
        assert [number_of(image) for image in images] == some


def test_pyav_skips_frames_that_no_other_needs(videos):
    wanted = np.array([3, 17, 30])
    reader = Video.open(videos["one_key"]).reader
    reader._wanted, reader._until = set(wanted), FRAMES
    decoded = [number for number, _ in reader._decode_from(0, reader.index)]
    assert set(wanted) < set(decoded) and len(decoded) < 0.75 * FRAMES
    images = Video.open(videos["one_key"], num_threads=4).get_batch(wanted)
    expected = decord.VideoReader(videos["one_key"]).get_batch(wanted).asnumpy()
    np.testing.assert_array_equal(images, expected)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kind", ["b_frames", "one_key", "uneven", "mpeg4.avi", "vp9.webm"])
def test_pyav_goes_on_where_the_last_call_stopped(videos, monkeypatch, kind, threads):
    """Windows of 8 frames at interval 2, which move by 4; then back to the first."""
    starts, start = [], PyAVReader._decode_from
    monkeypatch.setattr(PyAVReader, "_decode_from", lambda *a: starts.append(a[1]) or start(*a))
    video = Video.open(videos[kind], num_threads=threads)
    whole = Video.open(videos[kind]).get_batch(np.arange(FRAMES))
    starts.clear()
    for first in [*range(0, FRAMES - 16, 4), 0]:
        wanted = np.arange(first, first + 16, 2)
        images = video.get_batch(wanted)
        np.testing.assert_array_equal(images, np.stack(whole)[wanted])
        images[0][:] = 0  # in place, as MMAction2's transforms
    onward = starts[: starts.index(0, 1)]  # it jumps to a key frame over frames not wanted, once
    assert onward == sorted(set(onward)) and set(onward) <= {*video.reader.index.keys.tolist()}


def test_frames_that_are_not_where_time_stamps_put_them_are_counted(videos):
    video = Video.open(videos["b_frames"])
    index = video.reader.index
    video.reader.index = index._replace(stamps=index.stamps + 1)
    assert [number_of(image) for image in video.get_batch([5, 39])] == [5, 39]


def test_a_video_that_does_not_start_with_a_key_frame(videos, tmp_path):
    """Its first frames cannot be decoded; the others are counted."""
    path = str(tmp_path / "late.mkv")
    with av.open(videos["b_frames"]) as source, av.open(path, "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in [p for p in source.demux(video=0) if p.size][1:]:
            packet.stream = stream
            target.mux(packet)
    with av.open(path) as file:
        shown = [number_of(frame.to_ndarray(format="rgb24")) for frame in file.decode(video=0)]
    assert 0 < len(shown) < FRAMES
    images = Video.open(path).get_batch([0, 5])
    assert [number_of(image) for image in images] == [shown[0], shown[5]]


@pytest.mark.skipif(av.__version__ < "18", reason="PyAV 17 decodes the first frames, too")
def test_the_index_of_a_file_is_read_once(videos, tmp_path, monkeypatch):
    """Not for the first frame, not for a second clip, and again when the file changes."""
    opened, open_container = [], index.open_container
    monkeypatch.setattr(
        index, "open_container", lambda path, limit: opened.append(path) or open_container(path)
    )
    path = str(tmp_path / "a.mp4")
    shutil.copy(videos["b_frames"], path)
    assert number_of(Video.open(path).get_batch([0])[0]) == 0
    assert not opened
    for number in (5, 30):
        assert number_of(Video.open(path).get_batch([number])[0]) == number
    assert opened == [path]
    shutil.copy(videos["uneven"], path)
    assert number_of(Video.open(path).get_batch([39])[0]) == 39
    assert opened == [path, path]


def is_of(file: Path, path: object) -> bool:
    """Whether an open file of this process, which may just be gone, is that of a path."""
    with suppress(FileNotFoundError):
        return file.resolve(strict=True) == Path(str(path)).resolve()
    return False


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
@pytest.mark.parametrize("backend", ALL)
def test_files_are_closed_without_garbage_collection(videos, backend):
    def read():
        Video.open(videos["b_frames"], backend).get_batch([3])
        return sum(is_of(file, videos["b_frames"]) for file in Path("/proc/self/fd").iterdir())

    gc.collect()
    gc.disable()
    try:
        before = read()
        assert [read() for _ in range(5)][-1] == before
    finally:
        gc.enable()


def test_frames_that_are_given_are_kept() -> None:
    """MMAction2's long_video_demo puts ArrayDecode between the two transforms."""
    array = np.zeros((4, 8, 8, 3), np.uint8)
    results = dict(array=array, frame_inds=np.array([1, 3]), modality="RGB", start_index=0)
    results = Compose([VideoInit(), ArrayDecode(), VideoDecode()])(results)
    assert len(results["imgs"]) == 2 and results["img_shape"] == (8, 8)
