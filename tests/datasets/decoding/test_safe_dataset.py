"""The policy for bad samples: how they are named, replaced and counted; hangs and crashes."""

import os
import pickle
import re
import signal
import time

import cv2
import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope
from torch.utils.data import ConcatDataset, DataLoader

from mmvidformer.datasets.decoding import readers
from mmvidformer.datasets.decoding import safe_dataset as safe
from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.safe_dataset import SafeDataset

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
def test_training_replaces_and_counts_bad_samples(tmp_path, time_limit, monkeypatch):
    logged = []
    monkeypatch.setattr(safe, "print_log", lambda message, **_: logged.append(message))
    names = [*some_good(tmp_path), "gone.mp4", "gone.mp4", "lost.mp4"]
    data = videos(
        tmp_path, names, on_bad_video="resample", max_bad_share=0.5, time_limit=time_limit
    )
    for _ in range(2):
        items = [data[i] for i in range(len(data))]
    labels = [int(item["data_samples"].gt_label) for item in items]
    assert labels[:6] == list(range(6)) and all(label < 6 for label in labels)
    gone, lost = str(tmp_path / "gone.mp4"), str(tmp_path / "lost.mp4")
    reason = "there is no such file"
    found = data.bad_samples.known()
    assert found == {6: (gone, reason), 7: (gone, reason), 8: (lost, reason)}
    assert sorted(logged) == [f"bad video: {path}: {reason}" for path in (gone, lost)]


def test_too_large_a_share_ends_the_run(tmp_path):
    names = [*some_good(tmp_path, 3), "gone.mp4"]
    data = videos(tmp_path, names, on_bad_video="resample", max_bad_share=0.25)
    for _ in range(5):
        data[3]
    data = videos(tmp_path, names, on_bad_video="resample", max_bad_share=0.2)
    with pytest.raises(RuntimeError, match=r"1 of 4 samples are bad, .*max_bad_share=0\.2; .*gone"):
        data[3]


def test_many_bad_samples_in_a_row_end_the_run(tmp_path):
    data = videos(tmp_path, ["gone.mp4"], on_bad_video="resample", max_bad_share=1.0)
    with pytest.raises(RuntimeError, match="sample 0 is bad .*gone.*so are 50 .*data_prefix"):
        data[0]


class Fails:
    """Reads numbers, except those that are bad."""

    def __init__(self, size, bad=(), **fields):
        self.size, self.bad, self.fields = size, set(bad), fields

    def __len__(self):
        return self.size

    def get_data_info(self, idx):
        return {"sample_idx": idx, **self.fields}

    def __getitem__(self, idx):
        if idx in self.bad:
            raise ValueError(f"{idx} is bad")
        return idx


def test_samples_are_bad_not_files():
    """All frames of an LMDB, and all segments of a long video, have one path."""
    data = SafeDataset(
        Crashes(20, {3}, lmdb="frames.lmdb"), "resample", max_bad_share=0.05, time_limit=20
    )
    for _ in range(2):
        assert [data[i] for i in range(20) if i != 3] == [i for i in range(20) if i != 3]
        assert data[3] != 3
    assert data.bad_samples.known() == {3: ("frames.lmdb", "crashed its process (SIGSEGV)")}


class Crashes(Fails):
    """Crashes where ``Fails`` raises."""

    def __getitem__(self, idx):
        if idx in self.bad:
            os.kill(os.getpid(), signal.SIGSEGV)
        return idx


class Once(Fails):
    """Fails in the given way, at the first tries only; they are counted in a file."""

    def __init__(self, folder, failure, times=1):
        super().__init__(2, filename="video.mp4")
        self.log, self.failure, self.times = folder / "tries", failure, times

    def __getitem__(self, idx):
        with self.log.open("a") as log:
            log.write(f"{os.getpid()}\n")
        if len(self.log.read_text().split()) <= self.times:
            self.failure()
        return float(torch.rand(()))


def raise_error():
    raise OSError("the disk is busy")


def end_by(name):
    return lambda: os.kill(os.getpid(), getattr(signal, name))


@pytest.mark.parametrize("failure", [raise_error, end_by("SIGSEGV")])
def test_a_second_try_in_another_process_decides(tmp_path, failure):
    data = SafeDataset(Once(tmp_path, failure), "resample", time_limit=20)
    torch.manual_seed(0)
    value = data[0]
    torch.manual_seed(0)
    assert value == float(torch.rand(()))
    assert len(set(data.dataset.log.read_text().split())) == 2
    assert not data.bad_samples.known()
    (tmp_path / "tries").unlink()
    data = SafeDataset(Once(tmp_path, failure, 2), "resample", 1.0, time_limit=20)
    data[0]
    assert list(data.bad_samples.known()) == [0]


@pytest.mark.parametrize("failure", [end_by("SIGKILL"), lambda: time.sleep(60)])
def test_interruptions_from_outside_are_not_held_against_the_video(tmp_path, failure, monkeypatch):
    logged = []
    monkeypatch.setattr(safe, "print_log", lambda message, **_: logged.append(message))
    data = SafeDataset(Once(tmp_path, failure, 2), "resample", time_limit=1)
    assert 0 <= data[0] < 1
    assert len(logged) == 2
    assert all("sample 0 (video.mp4): " in line and "trying again" in line for line in logged)
    (tmp_path / "tries").unlink()
    data = SafeDataset(Once(tmp_path, failure, 3), "resample", time_limit=1)
    reason = "killed from outside|the storage stalled"
    with pytest.raises(RuntimeError, match=rf"sample 0 \(video\.mp4\): .*({reason}).* 3 times"):
        data[0]
    assert not data.bad_samples.known()


def test_a_missing_package_is_not_a_bad_video(tmp_path):
    def fail():
        import there_is_no_such_package  # noqa: F401

    for folder, limit, error in (("a", None, ImportError), ("b", 20, RuntimeError)):
        (tmp_path / folder).mkdir()
        data = SafeDataset(Once(tmp_path / folder, fail, 9), "resample", 1.0, time_limit=limit)
        with pytest.raises(error, match="there_is_no_such_package"):
            data[0]


def test_the_share_is_that_of_all_samples_of_all_epochs():
    data = SafeDataset(Fails(800, range(41)), "resample")
    for idx in (*range(40), *range(40)):
        data[idx]
    assert len(data.bad_samples.known()) == 40
    with pytest.raises(RuntimeError, match="41 of 800 samples are bad"):
        data[40]
    with pytest.raises(RuntimeError, match="41 of 800 samples are bad"):
        data.check_share()


def test_testing_flags_a_bad_sample_under_its_own_label(tmp_path):
    names = ["good0.mp4", "gone.mp4", "lost.mp4", "good1.mp4"]
    some_good(tmp_path, 2)
    data = videos(tmp_path, names, test_mode=True, on_bad_video="resample", max_bad_share=1.0)
    with pytest.raises(BadVideo, match=r"gone\.mp4: there is no such file"):
        data[1]
    data.is_hooked = True
    samples = [data[i] for i in range(4)]
    assert [int(s["data_samples"].gt_label) for s in samples] == [0, 1, 2, 3]
    flags = [s["data_samples"].get("bad_path") for s in samples]
    assert flags == [None, str(tmp_path / "gone.mp4"), str(tmp_path / "lost.mp4"), None]
    assert samples[1]["data_samples"].bad_video == "there is no such file"
    assert samples[1]["inputs"].shape == samples[0]["inputs"].shape


class Trap:
    """Hangs on one file as decord does, holding the GIL, and crashes on another."""

    def __call__(self, results):
        if results["filename"].endswith("/hang.mp4"):
            re.match("(a+)+$", 99 * "a" + "b")
        if results["filename"].endswith("/crash.mp4"):
            os.kill(os.getpid(), signal.SIGSEGV)
        return results


@pytest.mark.parametrize("persistent", [False, True])
def test_hangs_and_crashes_cost_their_own_sample_alone(tmp_path, persistent):
    names = [*some_good(tmp_path), "hang.mp4", "crash.mp4"]
    data = videos(
        tmp_path,
        names,
        [Trap(), *READ, *PACK],
        test_mode=True,
        on_bad_video="resample",
        max_bad_share=0.5,
        time_limit=2,
    )
    data.is_hooked = True
    loader = DataLoader(
        data, num_workers=2, collate_fn=pseudo_collate, persistent_workers=persistent
    )
    for epoch in range(2):
        start = time.monotonic()
        samples = [batch["data_samples"][0] for batch in loader]
        assert len(samples) == 8
        assert [s.get("bad_path") is not None for s in samples] == [False] * 6 + [True] * 2
        if epoch:  # bad samples are remembered, and not tried again
            assert time.monotonic() - start < 4
    reasons = {p.rsplit("/")[-1]: reason for p, reason in data.bad_samples.known().values()}
    assert reasons["hang.mp4"] == "took longer than 2 s and was killed"
    assert reasons["crash.mp4"] == "crashed its process (SIGSEGV)"


IN_PLACE = [dict(type="mmvidformer.VideoInit"), READ[1], dict(type="mmvidformer.VideoDecode")]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_safe_backend_needs_no_helper(tmp_path, workers):
    """Faults and hangs cost their own sample alone; the limit counts processor time."""
    names = [*some_good(tmp_path), "hang.mp4", "gone.mp4"]
    write(tmp_path / "hang.mp4")
    data = videos(
        tmp_path,
        names,
        [Trap(), *IN_PLACE, *PACK],
        test_mode=True,
        on_bad_video="resample",
        max_bad_share=0.5,
        time_limit=1,
    )
    data.is_hooked = True
    assert data._helper is None
    before = signal.getsignal(signal.SIGPROF)
    loader = DataLoader(data, num_workers=workers, collate_fn=pseudo_collate)
    samples = [batch["data_samples"][0] for batch in loader]
    assert [s.get("bad_path") is not None for s in samples] == [False] * 6 + [True] * 2
    reasons = {p.rsplit("/")[-1]: reason for p, reason in data.bad_samples.known().values()}
    assert reasons["hang.mp4"] == "TimeoutError: took longer than 1 s"
    assert reasons["gone.mp4"] == "there is no such file"
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_a_hang_between_frames_names_the_decoder(tmp_path, monkeypatch):
    name = some_good(tmp_path, 1)
    data = videos(tmp_path, name, [*IN_PLACE, *PACK], time_limit=1)
    hang = dict(filename="/hang.mp4")
    monkeypatch.setattr(readers.VideoReader, "_resized", lambda *_: Trap()(hang))
    with pytest.raises(BadVideo, match=r"good0\.mp4: PyAV cannot decode it: took longer than 1 s"):
        data[0]


def test_storage_that_stalls_is_waited_for(tmp_path):
    class Stall:
        def __call__(self, results):
            time.sleep(0.6)
            return results

    data = videos(tmp_path, some_good(tmp_path, 1), [Stall(), *IN_PLACE, *PACK], time_limit=0.5)
    assert data._helper is None and data[0]["inputs"].shape[2] == LENGTH


@pytest.mark.parametrize(
    ("opening", "helper", "expected"),
    [
        (dict(type="DecordInit"), None, True),
        (dict(type="DecordInit"), False, False),
        (dict(type="mmvidformer.VideoInit"), None, False),
        (dict(type="mmvidformer.VideoInit"), True, True),
        (dict(type="mmvidformer.VideoInit", backend="decord"), None, True),
    ],
)
def test_who_reads(tmp_path, opening, helper, expected):
    """A helper, unless all pipelines open videos with a backend that does not crash."""
    inner = videos(tmp_path, ["a.mp4"], [opening, *READ[1:]]).dataset
    in_place = videos(tmp_path, ["a.mp4"], IN_PLACE).dataset
    for dataset in (inner, ConcatDataset([in_place, inner])):
        data = SafeDataset(dataset, time_limit=20, helper=helper)
        assert (data._helper is not None) == expected
    assert SafeDataset(inner, helper=helper)._helper is None  # no limit


class Pids(Fails):
    """Gives the processes that read: the helper and the worker that owns it."""

    def __getitem__(self, idx):
        time.sleep(0.05)  # so that each worker reads some
        return os.getpid(), os.getppid()


def test_helpers_end_with_their_worker():
    data = SafeDataset(Pids(12), time_limit=20)
    loader = iter(DataLoader(data, batch_size=None, num_workers=2))
    pids = {pid for pair in [next(loader) for _ in range(8)] for pid in pair}
    assert len(pids) == 4 and os.getpid() not in pids
    del loader
    deadline = time.monotonic() + 10
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, pids))


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
        (lambda f: f.write_bytes(b""), "frame img_00003.jpg cannot be decoded"),
        (lambda f: f.write_bytes(f.read_bytes()[:20]), "frame img_00003.jpg cannot be decoded"),
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
    assert list(data.bad_samples.known()) == [2, 5]


def test_wrong_arguments_are_refused(tmp_path):
    for policy, message in (
        (dict(on_bad_video="skip"), "'raise' or 'resample', got 'skip'"),
        (dict(max_bad_share=5), "from 0 to 1, got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            videos(tmp_path, [], **policy)
