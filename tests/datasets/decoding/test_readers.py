"""Frames by number, the same from each library."""

import gc
import json
import struct
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import av
import cv2
import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import Resize
from mmengine.dataset import Compose

from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.readers import READERS, open_video
from mmvidformer.datasets.transforms.decode import VideoDecode, VideoInit

FRAMES = 40


try:
    import torchcodec

    has_torchcodec = torchcodec.ffmpeg_major_version is not None
except ImportError:
    has_torchcodec = False

needs_torchcodec = pytest.mark.skipif(not has_torchcodec, reason="needs torchcodec and FFmpeg")
ALL = [
    pytest.param(name, marks=needs_torchcodec if name == "torchcodec" else ()) for name in READERS
]


def picture(number: int) -> np.ndarray:
    """A grey that tells the frame's number, red on the left."""
    image = np.full((48, 64, 3), 5 * number + 20, np.uint8)
    image[:, :32] = (240, 20, 20)
    return image


def number_of(image: np.ndarray) -> int:
    return round((float(image[8:40, 44:60].mean()) - 20) / 5)


def write(path, codec: str, times=range(FRAMES), movflags: str = "", **options: str) -> str:
    with av.open(str(path), "w", options={"movflags": movflags} if movflags else {}) as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 25)
        for number, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.pts = time
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)


def write_all(root: Path) -> dict[str, str]:
    """A short and a long distance of key frames, B-frames, uneven times, no times, no header."""
    uneven = np.cumsum([0] + [1, 1, 3, 1, 2] * 8)[:FRAMES].tolist()
    return {
        "b_frames": write(root / "b.mp4", "libx264", g="12", bf="3", crf="8"),
        "header_first": write(root / "h.mp4", "libx264", movflags="faststart"),
        "one_key": write(root / "one.mp4", "libx264", g="1000", bf="2", crf="8"),
        "uneven": write(root / "uneven.mp4", "libx264", uneven, g="8", bf="2", crf="8"),
        "mpeg4.avi": write(root / "m.avi", "mpeg4", g="12", bf="2", qmin="2", qmax="2"),
        "vp9.webm": write(root / "v.webm", "libvpx-vp9", g="12", crf="10", b="0"),
        "camera": write(root / "camera.webm", "libvpx", [i + i // 3 for i in range(FRAMES)]),
        "stream.ts": write(root / "s.ts", "libx264", g="12", bf="2", crf="8"),
        "stream.mpg": write(root / "s.mpg", "mpeg2video", g="12", bf="2", qmin="2", qmax="2"),
    }


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> dict[str, str]:
    """Written by a process of its own: once decord has read, libvpx's encoder can't be opened."""
    command = [sys.executable, __file__, str(tmp_path_factory.mktemp("decode"))]
    written = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(written.stdout.splitlines()[-1])


def test_a_camera_recorded_by_a_browser_has_a_rate(videos, tmp_path: Path) -> None:
    """Its frames come when they can, and the file states no rate."""
    content = Path(videos["camera"]).read_bytes()
    void = content.replace(b"\x23\xe3\x83\x84", b"\xec\x86\x00\x00")  # the duration of a frame
    assert void != content
    path = tmp_path / "camera.webm"
    path.write_bytes(void)
    with av.open(str(path)) as container:
        assert not container.streams.video[0].average_rate  # None, or 0/0 from PyAV 19 on
    assert open_video(str(path)).get_avg_fps() == pytest.approx((FRAMES - 1) / ((39 + 13) / 25))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("kind", ["b_frames", "one_key", "uneven", "mpeg4.avi", "vp9.webm"])
def test_each_backend_gives_the_frames_asked_for(videos, backend, kind):
    def read(indices):
        return open_video(videos[kind], backend).get_batch(indices)

    assert len(open_video(videos[kind], backend)) == FRAMES
    whole = read(np.arange(FRAMES))
    assert [number_of(image) for image in whole] == list(range(FRAMES))
    assert whole[0].dtype == np.uint8 and whole[0][20, 10, 0] > 180 > 80 > whole[0][20, 10, 2]
    for some in ([0], [39], [11, 12, 13], [3, 30], [25, 27, 36]):
        np.testing.assert_array_equal(read(np.array(some)), np.stack(whole)[some])
    pyav = open_video(videos[kind], "pyav").get_batch(np.arange(FRAMES))
    np.testing.assert_array_equal(whole, pyav)


def results_of(path: str, *indices: int) -> dict:
    return dict(filename=path, frame_inds=np.array(indices))


@pytest.mark.parametrize("backend", ALL)
def test_order_and_repetitions_are_those_of_the_sampler(videos, backend):
    decode = Compose([VideoInit(backend), VideoDecode()])
    results = decode(results_of(videos["b_frames"], 17, 3, 17, 38, 3))
    assert [number_of(image) for image in results["imgs"]] == [17, 3, 17, 38, 3]
    assert results["total_frames"] == FRAMES and results["avg_fps"] == pytest.approx(25)
    assert results["img_shape"] == results["original_shape"] == (48, 64)
    assert results["clamped_frames"] == 0 and results["video_reader"] is None
    cv2.flip(results["imgs"][0], 1, results["imgs"][0])  # in place, as MMAction2's Flip
    assert results["imgs"][2][20, 10, 0] > 180


def test_each_frame_is_decoded_once(videos, monkeypatch):
    asked = []
    reader = READERS["decord"]
    before = reader.get_batch
    monkeypatch.setattr(reader, "get_batch", lambda s, i: asked.append(list(i)) or before(s, i))
    ten_views = [start + k for start in (0, 2, 4) for k in range(0, 8, 2)]
    Compose([VideoInit("decord"), VideoDecode()])(results_of(videos["b_frames"], *ten_views))
    assert asked == [[0, 2, 4, 6, 8, 10]]


@pytest.mark.parametrize("backend", ALL)
def test_frames_beyond_the_last_are_counted_with_a_warning(videos, backend):
    decode = Compose([VideoInit(backend), VideoDecode()])
    with pytest.warns(UserWarning, match=r"b\.mp4: 2 of 3 sampled frames lie beyond its 40"):
        results = decode(results_of(videos["b_frames"], 39, 40, 55))
    assert [number_of(image) for image in results["imgs"]] == [39, 39, 39]
    assert results["clamped_frames"] == 2


@pytest.mark.parametrize("kind", ["b_frames", "mpeg4.avi"])
def test_a_container_that_counts_too_many_frames(videos, kind):
    reader = open_video(videos[kind])
    reader._length += 5
    results = results_of(videos[kind], 38, 42)
    with pytest.warns(UserWarning, match="1 of 2 .* its 40 frames"):
        results = VideoDecode()(dict(results, video_reader=reader))
    assert [number_of(image) for image in results["imgs"]] == [38, 39]


@pytest.mark.parametrize("backend", ALL)
def test_a_file_without_video_stream_is_named(tmp_path, backend):
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        file.mux(stream.encode(frame))
        file.mux(stream.encode())
    reason = "(no|find|best) video stream"
    with pytest.raises(BadVideo, match=f"cannot open it: .*({reason})"):
        VideoInit(backend)(dict(filename=str(path)))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"no video at all" * 100, "cannot open it"),
        (None, "there is no such file"),
    ],
    ids=["empty", "text", "missing"],
)
def test_a_bad_file_is_named(tmp_path, backend, content, reason):
    path = tmp_path / "bad.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadVideo, match=f"bad.mp4: .*{reason}") as caught:
        VideoInit(backend)(dict(filename=str(path)))
    assert caught.value.path == str(path)
    assert ".cc:8" not in caught.value.reason  # places in decord's source
    if backend == "pyav":  # whose own message has the path again
        assert str(tmp_path) not in caught.value.reason


@pytest.mark.parametrize("backend", ALL)
def test_a_cut_file_gives_its_frames_or_says_so(videos, tmp_path, backend):
    """The end of a webm is missing: all that can be had is exact, nothing is made up."""
    path = tmp_path / "cut.webm"
    content = open(videos["vp9.webm"], "rb").read()
    path.write_bytes(content[: len(content) * 2 // 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decode = Compose([VideoInit(backend), VideoDecode()])
        try:
            results = decode(results_of(str(path), 0, 5, 39))
        except BadVideo:
            return
    assert [number_of(image) for image in results["imgs"][:2]] == [0, 5]
    assert results["clamped_frames"] == 1


@pytest.mark.parametrize("backend", ALL[:2])  # decord may crash
def test_a_truncated_file_is_named(videos, tmp_path, backend):
    """The header counts more frames than there are; messages have no place in the source code."""
    path, content = tmp_path / "cut.mp4", Path(videos["header_first"]).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BadVideo, match=r"cut\.mp4: \w+ cannot (open|decode) it: ") as caught:
        open_video(str(path), backend).get_batch(np.arange(FRAMES))
    assert ".cpp:" not in caught.value.reason and ".cc:2" not in caught.value.reason


@pytest.mark.parametrize("backend", ALL)
def test_videos_from_elsewhere(videos, backend):
    decode = Compose([VideoInit(backend, io_backend="local"), VideoDecode()])
    for kind in ("b_frames", "mpeg4.avi"):
        images = decode(results_of(videos[kind], 4, 30))["imgs"]
        assert [number_of(image) for image in images] == [4, 30]


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
        open_video(videos["b_frames"], "torchcodec")


@pytest.mark.parametrize("backend", ALL)
def test_videos_are_upright(videos, tmp_path, backend):
    """The tag of a quarter turn clockwise, as telephones write it: red is on top."""
    content = bytearray(Path(videos["b_frames"]).read_bytes())
    matrix = content.index(b"tkhd") + 44
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30)
    path = tmp_path / "turned.mp4"
    path.write_bytes(content)
    if backend == "decord":
        with pytest.raises(BadVideo, match="decord cannot decode it: .*size must exactly match"):
            open_video(str(path), backend).get_batch([9])
        return
    (image,) = open_video(str(path), backend).get_batch([9])
    (stored,) = open_video(videos["b_frames"]).get_batch([9])
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
        images = open_video(str(path), backend).get_batch(np.array(some))
        assert [number_of(image) for image in images] == some


def test_pyav_skips_frames_that_no_other_needs(videos):
    wanted = np.array([3, 17, 30])
    reader = open_video(videos["one_key"])
    decoded = [number for number, _ in reader._from(0, wanted)]
    assert set(wanted) < set(decoded) and len(decoded) < 0.75 * FRAMES
    images = open_video(videos["one_key"], num_threads=4).get_batch(wanted)
    expected = open_video(videos["one_key"], "decord").get_batch(wanted)
    np.testing.assert_array_equal(images, expected)


def test_frames_that_are_not_where_time_stamps_put_them_are_counted(videos):
    reader = open_video(videos["b_frames"])
    reader._times = [time + 1 for time in reader._times]
    reader._numbers = {time: number for number, time in enumerate(reader._times)}
    assert [number_of(image) for image in reader.get_batch([5, 39])] == [5, 39]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
@pytest.mark.parametrize("backend", ALL)
def test_files_are_closed_without_garbage_collection(videos, backend):
    def read():
        open_video(videos["b_frames"], backend).get_batch([3])
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()
    gc.disable()
    try:
        before = read()
        assert [read() for _ in range(5)][-1] == before
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ALL)
def test_frames_are_resized_as_by_a_later_transform(videos, backend):
    def images(size, *later):
        decode = Compose([VideoInit(backend, short_side=size), VideoDecode(), *later])
        results = decode(results_of(videos["b_frames"], *range(0, 40, 3)))
        return results["imgs"], results["img_shape"]

    found, shape = images(30)
    expected, _ = images(None, Resize(scale=(-1, 30)))
    np.testing.assert_array_equal(found, expected)
    assert shape == (30, 40)


def test_devices(videos, monkeypatch):
    with pytest.raises(ValueError, match="device='cuda' needs backend='torchcodec', got 'pyav'"):
        VideoInit(device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="must be 'cpu' without a CUDA GPU, got 'cuda:1'"):
        VideoInit("torchcodec", device="cuda:1")


@needs_torchcodec
def test_the_device_reaches_torchcodec(videos, monkeypatch):
    from torchcodec import decoders

    devices, decoder = [], decoders.VideoDecoder
    monkeypatch.setattr(
        decoders,
        "VideoDecoder",
        lambda source, device, **kw: devices.append(device) or decoder(source, device="cpu", **kw),
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    decode = Compose([VideoInit("torchcodec", device="cuda:1"), VideoDecode()])
    assert number_of(decode(results_of(videos["b_frames"], 7))["imgs"][0]) == 7
    assert devices == ["cuda:1"]


@needs_torchcodec
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_nvdec_gives_the_frames_asked_for(videos):
    decode = Compose([VideoInit("torchcodec", device="cuda"), VideoDecode()])
    images = decode(results_of(videos["b_frames"], 17, 3, 39))["imgs"]
    assert [number_of(image) for image in images] == [17, 3, 39]


if __name__ == "__main__":
    print(json.dumps(write_all(Path(sys.argv[1]))))
