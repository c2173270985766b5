"""The policy for bad videos: what is told, what comes in their place, what hangs and crashes."""

import ctypes
import os
import pickle
import signal
import time

import cv2
import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

from mmvidformer.datasets.decoding import guard as safe
from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.guard import SafeDataset

av = pytest.importorskip("av")

SIDE, LENGTH = 16, 4
READ = [
    dict(type="DecordInit", num_threads=1),
    dict(type="SampleFrames", clip_len=LENGTH, frame_interval=2),
    dict(type="DecordDecode"),
]
PACK = [
    dict(type="Resize", scale=(SIDE, SIDE), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]


@pytest.fixture(autouse=True)
def scope():
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


def write(path, count=12, size=(32, 24), codec="mpeg4", form=None, times=None):
    """A video of noise; ``times`` are the frames' own times in frames."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w", format=form) as file:
        stream = file.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        if codec == "mjpeg":
            stream.pix_fmt = "yuvj420p"
        for number in range(count):
            image = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts = number if times is None else times[number]
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


def write_sound(path):
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        file.mux(stream.encode(frame))
        file.mux(stream.encode())


def videos(root, names, pipeline=None, test_mode=False, **policy):
    """A SafeDataset of files, whose labels are their numbers."""
    (root / "list.txt").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    return SafeDataset(
        dict(
            type="VideoDataset",
            ann_file=str(root / "list.txt"),
            data_prefix=dict(video=str(root)),
            pipeline=[*READ, *PACK] if pipeline is None else pipeline,
            test_mode=test_mode,
        ),
        **policy,
    )


def some_good(root, count=6):
    names = [f"good{i}.mp4" for i in range(count)]
    for i, name in enumerate(names):
        write(root / name, count=8 + i)
    return names


def write_nothing(path):
    code = cv2.VideoWriter_fourcc(*"mp4v")
    cv2.VideoWriter(str(path), code, 25, (32, 24)).release()
    assert path.stat().st_size > 0


def cut(path):
    write(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


FAULTS = {
    "missing": (lambda path: None, "there is no such file"),
    "empty": (lambda path: path.write_bytes(b""), r"is empty \(0 bytes\)"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "dead_link": (lambda path: path.symlink_to("nowhere"), "link to a file that does not exist"),
    "text": (lambda path: path.write_text("no video" * 99), "DecordInit: RuntimeError"),
    "cut": (cut, "DecordInit: RuntimeError"),
    "sound": (write_sound, "cannot find video stream"),
    "no_frames": (write_nothing, "Decord"),
}


@pytest.mark.parametrize("time_limit", [None, 20])
@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_video_is_named_with_its_fault(tmp_path, name, time_limit):
    make, reason = FAULTS[name]
    make(tmp_path / "bad.mp4")
    data = videos(tmp_path, ["bad.mp4"], time_limit=time_limit)
    with pytest.raises(BadVideo, match=reason) as caught:
        data[0]
    assert caught.value.path == str(tmp_path / "bad.mp4")
    assert "/github" not in caught.value.reason


@pytest.mark.parametrize(
    "make",
    [
        lambda path: write(path, count=1),
        lambda path: write(path, count=2),
        lambda path: write(path, size=(34, 18)),
        lambda path: write(path, size=(33, 17), codec="mjpeg", form="avi"),
        lambda path: write(path, form="avi"),  # extension of another container
        lambda path: write(path, times=[0, 1, 5, 6, 7, 30, 31, 40, 41, 42, 43, 90]),
    ],
    ids=["one_frame", "two_frames", "odd_size", "odd_pixels", "wrong_extension", "variable_rate"],
)
def test_an_odd_video_is_read(tmp_path, make):
    make(tmp_path / "odd.mp4")
    item = videos(tmp_path, ["odd.mp4"])[0]
    assert item["inputs"].shape == (1, 3, LENGTH, SIDE, SIDE)
    assert item["inputs"].float().std() > 5


def test_a_change_of_resolution_gives_frames_of_one_size(tmp_path):
    write(tmp_path / "a", count=12, codec="mpeg1video", form="mpeg1video")
    write(tmp_path / "b", count=12, codec="mpeg1video", form="mpeg1video", size=(64, 48))
    joined = (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes()
    (tmp_path / "both.mpg").write_bytes(joined)
    data = videos(tmp_path, ["both.mpg"], time_limit=20)
    try:
        assert data[0]["inputs"].shape == (1, 3, LENGTH, SIDE, SIDE)
    except BadVideo as error:
        assert error.path.endswith("both.mpg")


@pytest.mark.parametrize("time_limit", [None, 20])
def test_training_takes_another_sample_and_counts(tmp_path, time_limit, monkeypatch):
    told = []
    monkeypatch.setattr(safe, "print_log", lambda message, **_: told.append(message))
    names = [*some_good(tmp_path), "gone.mp4", "gone.mp4", "lost.mp4"]
    data = videos(
        tmp_path, names, on_bad_video="resample", max_bad_share=0.5, time_limit=time_limit
    )
    for _ in range(2):
        items = [data[i] for i in range(len(data))]
    labels = [int(item["data_samples"].gt_label) for item in items]
    assert labels[:6] == list(range(6)) and all(label < 6 for label in labels)
    found = {(s.item, s.path, s.reason) for s in data.ledger.samples()}
    gone, lost = str(tmp_path / "gone.mp4"), str(tmp_path / "lost.mp4")
    reason = "there is no such file"
    assert found == {(6, gone, reason), (7, gone, reason), (8, lost, reason)}
    assert sorted(told) == [f"bad video: {path}: {reason}" for path in (gone, lost)]


def test_too_large_a_share_ends_the_run(tmp_path):
    names = [*some_good(tmp_path, 3), "gone.mp4"]
    data = videos(tmp_path, names, on_bad_video="resample", max_bad_share=0.25)
    for _ in range(5):
        data[3]
    data = videos(tmp_path, names, on_bad_video="resample", max_bad_share=0.2)
    with pytest.raises(RuntimeError, match=r"1 of 4 samples are bad, more than .* 0\.2 .*gone"):
        data[3]


def test_a_row_of_bad_samples_ends_the_run(tmp_path):
    data = videos(tmp_path, ["gone.mp4"], on_bad_video="resample", max_bad_share=1.0)
    with pytest.raises(RuntimeError, match="50 samples in a row are bad, .*gone.*data_prefix"):
        data[0]


def test_testing_flags_a_bad_sample_under_its_own_label(tmp_path):
    names = ["good0.mp4", "gone.mp4", "lost.mp4", "good1.mp4"]
    some_good(tmp_path, 2)
    data = videos(tmp_path, names, test_mode=True, on_bad_video="resample", max_bad_share=1.0)
    with pytest.raises(BadVideo, match=r"gone\.mp4: there is no such file.*BadVideoHook"):
        data[1]
    data.flags_are_heeded = True
    samples = [data[i] for i in range(4)]
    assert [int(s["data_samples"].gt_label) for s in samples] == [0, 1, 2, 3]
    flags = [s["data_samples"].get("bad_path") for s in samples]
    assert flags == [None, str(tmp_path / "gone.mp4"), str(tmp_path / "lost.mp4"), None]
    assert samples[1]["data_samples"].bad_video == "there is no such file"
    assert samples[1]["inputs"].shape == samples[0]["inputs"].shape


class Trap:
    """Hangs on one file as decord does, holding Python's lock, and crashes on another."""

    def __call__(self, results):
        if results["filename"].endswith("/hang.mp4"):
            ctypes.PyDLL(None).sleep(60)
        if results["filename"].endswith("/crash.mp4"):
            os.kill(os.getpid(), signal.SIGSEGV)
        return results


def test_hangs_and_crashes_cost_their_own_file_alone(tmp_path):
    names = [*some_good(tmp_path), "hang.mp4", "crash.mp4"]
    plain = videos(tmp_path, names[:6], [*READ, *PACK])
    data = videos(
        tmp_path,
        names,
        [Trap(), *READ, *PACK],
        test_mode=True,
        on_bad_video="resample",
        max_bad_share=0.5,
        time_limit=3,
    )
    data.flags_are_heeded = True
    loader = DataLoader(data, num_workers=2, collate_fn=pseudo_collate, persistent_workers=True)
    for again in range(2):
        start = time.monotonic()
        samples = [batch["data_samples"][0] for batch in loader]
        assert len(samples) == 8
        assert [s.get("bad_path") is not None for s in samples] == [False] * 6 + [True] * 2
        if again:  # no one waits for the same file twice
            assert time.monotonic() - start < 3
    reasons = {s.path.rsplit("/")[-1]: s.reason for s in data.ledger.samples()}
    assert reasons["hang.mp4"] == "took longer than 3 s and was killed"
    assert reasons["crash.mp4"] == "the process that read it was ended by SIGSEGV"
    assert len(plain) == 6


class Noise:
    """Uses all three generators."""

    def __call__(self, results):
        import random

        draw = random.random() + np.random.rand() + torch.rand(()).item()
        results["imgs"] = [image + np.uint8(20 * draw) for image in results["imgs"]]
        return results


def test_random_numbers_are_those_of_a_run_without_helper(tmp_path):
    names = [*some_good(tmp_path, 3), "gone.mp4"]
    policy = dict(on_bad_video="resample", max_bad_share=1.0)

    def run(time_limit):
        data = videos(tmp_path, names, [*READ, Noise(), *PACK], time_limit=time_limit, **policy)
        np.random.seed(0)
        torch.manual_seed(0)
        __import__("random").seed(0)
        return [data[i % 4]["inputs"] for i in range(12)]

    for alone, helped in zip(run(None), run(20), strict=True):
        assert torch.equal(alone, helped)


def frames(root, **policy):
    folder = root / "video"
    folder.mkdir()
    for i in range(1, 7):
        cv2.imwrite(str(folder / f"img_{i:05}.jpg"), np.full((20, 20, 3), 30 * i, np.uint8))
    (root / "list.txt").write_text("video 6 0\n")
    read = [dict(type="SampleFrames", clip_len=6, frame_interval=1), dict(type="RawFrameDecode")]
    return folder, SafeDataset(
        dict(
            type="RawframeDataset",
            ann_file=str(root / "list.txt"),
            data_prefix=dict(img=str(root)),
            pipeline=[*read, *PACK],
        ),
        **policy,
    )


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda f: f.unlink(), "1 of 6 frames are missing, the first is img_00003.jpg"),
        (lambda f: f.write_bytes(b""), "frame img_00003.jpg can't be decoded"),
        (lambda f: f.write_bytes(f.read_bytes()[:20]), "frame img_00003.jpg can't be decoded"),
        (lambda f: f.parent.rename(f.parent.with_name("other")), "there is no such folder"),
    ],
)
def test_bad_frames_are_named(tmp_path, damage, reason):
    folder, data = frames(tmp_path)
    assert data[0]["inputs"].shape[2] == 6
    damage(folder / "img_00003.jpg")
    with pytest.raises(BadVideo, match=reason) as caught:
        data[0]
    assert caught.value.path == str(folder)


def test_wrapped_and_pickled_data_sets_keep_the_policy(tmp_path):
    names = [*some_good(tmp_path, 2), "gone.mp4"]
    inner = videos(tmp_path, names).dataset
    repeated = dict(type="RepeatDataset", dataset=inner, times=2)
    data = SafeDataset(repeated, on_bad_video="resample", max_bad_share=0.5, time_limit=20)
    assert len(data) == 6 and data[2]["inputs"].shape == data[0]["inputs"].shape
    copy = pickle.loads(pickle.dumps(data))
    copy[5]
    assert [s.item for s in data.ledger.samples()] == [2, 5]


def test_wrong_arguments_are_told(tmp_path):
    for policy, told in (
        (dict(on_bad_video="skip"), "'raise' or 'resample', got 'skip'"),
        (dict(max_bad_share=5), "in 0 to 1, got 5"),
        (dict(time_limit=0), "positive or None, got 0"),
    ):
        with pytest.raises(ValueError, match=told):
            videos(tmp_path, [], **policy)
