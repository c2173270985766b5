"""Frames by number, the same from each library."""

import json
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from mmengine.dataset import Compose

from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.readers import READERS, open_video
from mmvidformer.datasets.transforms import VideoDecode, VideoInit

FRAMES = 40


def picture(number: int) -> np.ndarray:
    """A grey that tells the frame's number, red on the left."""
    image = np.full((48, 64, 3), 5 * number + 20, np.uint8)
    image[:, :32] = (240, 20, 20)
    return image


def number_of(image: np.ndarray) -> int:
    return round((float(image[8:40, 44:60].mean()) - 20) / 5)


def write(path, codec: str, times=range(FRAMES), **options: str) -> str:
    with av.open(str(path), "w") as container:
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
        "one_key": write(root / "one.mp4", "libx264", g="1000", bf="2", crf="8"),
        "uneven": write(root / "uneven.mp4", "libx264", uneven, g="8", bf="2", crf="8"),
        "mpeg4.avi": write(root / "m.avi", "mpeg4", g="12", bf="2", qmin="2", qmax="2"),
        "vp9.webm": write(root / "v.webm", "libvpx-vp9", g="12", crf="10", b="0"),
    }


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> dict[str, str]:
    """Written by a process of its own: once decord has read, libvpx's encoder can't be opened."""
    command = [sys.executable, __file__, str(tmp_path_factory.mktemp("decode"))]
    written = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(written.stdout.splitlines()[-1])


@pytest.mark.parametrize("backend", READERS)
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
    decord = open_video(videos[kind], "decord").get_batch(np.arange(FRAMES))
    np.testing.assert_array_equal(whole, decord)


def results_of(path: str, *indices: int) -> dict:
    return dict(filename=path, frame_inds=np.array(indices))


@pytest.mark.parametrize("backend", ["auto", *READERS])
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


@pytest.mark.parametrize("backend", READERS)
def test_frames_beyond_the_last_are_counted_with_a_warning(videos, backend):
    decode = Compose([VideoInit(backend), VideoDecode()])
    with pytest.warns(UserWarning, match=r"b\.mp4: 2 of 3 sampled frames lie beyond its 40"):
        results = decode(results_of(videos["b_frames"], 39, 40, 55))
    assert [number_of(image) for image in results["imgs"]] == [39, 39, 39]
    assert results["clamped_frames"] == 2


@pytest.mark.parametrize("backend", ["pyav", "opencv"])
def test_a_container_that_counts_too_many_frames(videos, backend):
    reader = open_video(videos["b_frames"], backend)
    reader._length += 5
    results = results_of(videos["b_frames"], 38, 42)
    with pytest.warns(UserWarning, match="1 of 2 .* its 40 frames"):
        results = VideoDecode()(dict(results, video_reader=reader))
    assert [number_of(image) for image in results["imgs"]] == [38, 39]


@pytest.mark.parametrize("backend", READERS)
def test_a_file_without_video_stream_is_named(tmp_path, backend):
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        file.mux(stream.encode(frame))
        file.mux(stream.encode())
    reason = "unknown format" if backend == "opencv" else "no video stream|cannot find video stream"
    with pytest.raises(BadVideo, match=f"cannot open it: .*({reason})"):
        VideoInit(backend)(dict(filename=str(path)))


@pytest.mark.parametrize("backend", ["auto", *READERS])
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
    if backend == "auto" and content:
        assert all(name in caught.value.reason for name in ("decord", "PyAV", "OpenCV"))


@pytest.mark.parametrize("backend", READERS)
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


def test_videos_from_elsewhere(videos):
    decode = [Compose([VideoInit(name, io_backend="local"), VideoDecode()]) for name in READERS]
    for pipeline in decode[:2]:
        imgs = pipeline(results_of(videos["b_frames"], 4))["imgs"]
        assert number_of(imgs[0]) == 4
    with pytest.raises(BadVideo, match="OpenCV cannot open it: only local files"):
        decode[2](results_of(videos["b_frames"], 4))


def test_an_unknown_or_missing_backend_is_refused(videos, monkeypatch):
    with pytest.raises(KeyError, match="no video backend named 'ffmpeg'; choose from auto, decord"):
        VideoInit("ffmpeg")
    monkeypatch.setattr(READERS["pyav"], "module", "not_installed")
    with pytest.raises(ImportError, match="'pyav' install not_installed"):
        open_video(videos["b_frames"], "pyav")
    assert len(open_video(videos["b_frames"], "auto")) == FRAMES


if __name__ == "__main__":
    print(json.dumps(write_all(Path(sys.argv[1]))))
