"""The policy for bad samples: which they are, and how they are named, replaced and counted."""

import errno
import pickle
import random

import av
import cv2
import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import DecordInit, LoadRGBFromFile
from mmaction.structures import ActionDataSample

from mmvidformer.data import bad_videos
from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.errors import UserError
from mmvidformer.video.errors import BadVideo, TooManyBadVideos
from tests.video.toys import (
    PACK,
    READ,
    Index,
    Numbers,
    some_good,
    videos,
    write,
    write_sound,
)

pytestmark = pytest.mark.usefixtures("scope")


def write_nothing(path):
    code = cv2.VideoWriter_fourcc(*"mp4v")
    cv2.VideoWriter(str(path), code, 25, (32, 24)).release()
    assert path.stat().st_size > 0


def cut(path):
    write(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


READ_ERROR = r"bad\.mp4: DecordInit cannot read it \(RuntimeError: Error reading"
FAULTS = {
    "missing": (lambda path: None, r"bad\.mp4: No such file or directory$"),
    "empty": (lambda path: path.write_bytes(b""), READ_ERROR),
    "folder": (lambda path: path.mkdir(), "Is a directory$"),
    "dead_link": (lambda path: path.symlink_to("nowhere"), "No such file"),
    "text": (lambda path: path.write_text("no video" * 99), READ_ERROR),
    "cut": (cut, READ_ERROR),
    "sound": (write_sound, "cannot find video stream"),
    "no_frames": (write_nothing, "Decord"),
}


def test_who_calls_a_transform_gets_its_own_error() -> None:
    """As in MMAction2's own tests, which also name the argument."""
    with pytest.raises(FileNotFoundError):
        LoadRGBFromFile()(results=dict(img_path="nowhere.jpg"))


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_video_is_named_with_its_fault(tmp_path, name):
    make, reason = FAULTS[name]
    make(tmp_path / "bad.mp4")
    data = videos(tmp_path, ["bad.mp4"], on_bad_video="raise")
    with pytest.raises(BadVideo, match=reason) as caught:
        data[0]
    assert caught.value.path == str(tmp_path / "bad.mp4")
    assert "/github" not in caught.value.reason
    assert caught.value.__context__ is not None


class Raises:
    """Raises an error, at the first calls only."""

    def __init__(self, error, times=10**9):
        self.error, self.times = error, times

    def __call__(self, results):
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return results


class RaisingInit(Raises, DecordInit):
    """The same in a transform that reads."""

    transform, __call__ = Raises.__call__, DecordInit.__call__


class Piped(Numbers):
    """One sample with the given fields, read by the given transform."""

    def __init__(self, transform, **info):
        super().__init__(1)
        self.transform, self.info = transform, info

    def get_data_info(self, idx):
        return self.info

    def __getitem__(self, idx):
        return self.transform(self.info)


@pytest.mark.parametrize("path", ["s3://bucket/a.mp4", "."])
def test_the_message_is_the_error_and_no_guess(path):
    """Whatever the local file system has at the path."""
    busy = RaisingInit(OSError(errno.ETXTBSY, "Text file busy"))
    with pytest.raises(BadVideo) as caught:
        SafeDataset(Piped(busy, filename=path), "raise")[0]
    assert str(caught.value) == f"{path}: Text file busy"


@pytest.mark.parametrize("policy", ["raise", "resample"])
@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("no space"), KeyError("imgs")])
def test_errors_of_other_transforms_are_raised_as_they_are(tmp_path, policy, error):
    names = some_good(tmp_path, 2)
    data = videos(tmp_path, names, [*READ, Raises(error, 1), *PACK], on_bad_video=policy)
    with pytest.raises(type(error)) as caught:
        data[0]
    assert caught.value is error


class OutOfMemoryError(RuntimeError):
    """As that of PyTorch is called."""


@pytest.mark.parametrize("error", [ImportError("no decord"), OutOfMemoryError(), UserError("no")])
def test_a_missing_package_or_a_full_gpu_is_not_the_videos_fault(tmp_path, error):
    data = videos(tmp_path, some_good(tmp_path, 2), [RaisingInit(error, 1), *PACK])
    with pytest.raises(type(error)):
        data[0]


@pytest.mark.parametrize(
    "error", [av.error.MemoryError(errno.ENOMEM, "Cannot allocate memory", "a.mp4"), MemoryError()]
)
def test_memory_that_a_damaged_file_asks_for_is_the_videos_fault(tmp_path, error):
    with pytest.raises(BadVideo, match="its header asks for more memory than there is"):
        videos(tmp_path, some_good(tmp_path, 1), [RaisingInit(error)], on_bad_video="raise")[0]


@pytest.mark.parametrize("error", [RuntimeError("no frame"), KeyError("imgs")])
def test_a_transform_that_reads_in_another_one_is_seen(tmp_path, error):
    inner = dict(type="RandomApply", prob=1.0, transforms=[RaisingInit(error)])
    data = videos(tmp_path, some_good(tmp_path, 1), [inner, *PACK], on_bad_video="raise")
    is_of_video = not isinstance(error, KeyError)
    with pytest.raises(BadVideo if is_of_video else KeyError) as caught:
        data[0]
    if is_of_video:
        reason = "RaisingInit cannot read it (RuntimeError: no frame)"
        assert str(caught.value) == f"{tmp_path / 'good0.mp4'}: {reason}"


def test_training_replaces_bad_samples_and_tries_them_again(tmp_path, monkeypatch):
    logged = []
    monkeypatch.setattr(bad_videos, "print_log", lambda message, **_: logged.append(message))
    names = [*some_good(tmp_path), "gone.mp4", "gone.mp4", "lost.mp4"]
    data = videos(tmp_path, names, max_bad_share=0.5)
    for _ in range(2):
        labels = [int(data[i]["data_samples"].gt_label) for i in range(len(data))]
        assert labels[:6] == [*range(6)] and all(label < 6 for label in labels)
    assert {*logged} == {
        f"bad video: {tmp_path / name}: No such file or directory"
        for name in ("gone.mp4", "lost.mp4")
    }
    write(tmp_path / "lost.mp4")
    assert int(data[8]["data_samples"].gt_label) == 8


@pytest.mark.parametrize(("size", "allowed"), [(4, 1), (800, 200), (1000, 250)])
def test_the_share_of_a_small_data_set_is_exact(size, allowed):
    data = SafeDataset(Numbers(size, range(allowed)), max_bad_share=0.25)
    for idx in [*range(allowed)] * 2:
        data[idx]
    data.dataset.bad.add(allowed)
    with pytest.raises(TooManyBadVideos, match=rf"{allowed + 1} bad .* of {size} .*_share=0\.25"):
        data[allowed]


@pytest.mark.parametrize(("share", "allowed"), [(0.05, 1), (0.0, 0)])
def test_one_video_of_few_may_be_bad(share: float, allowed: int):
    """1 of 9 is more than 5%, but no reason to test none of them."""
    data = SafeDataset(Numbers(9, range(allowed)), max_bad_share=share)
    for idx in range(9):
        data[idx]
    data.dataset.bad.add(allowed)
    with pytest.raises(TooManyBadVideos, match=f"{allowed + 1} bad ones among 9 samples"):
        data[allowed]


def test_the_share_of_a_large_data_set_is_that_of_what_was_read():
    data = SafeDataset(Numbers(10**6, range(300)), max_bad_share=0.1)
    for idx in range(1000, 4000):
        data[idx]
    for idx in range(300):  # each with another one in its place
        data[idx]
    data.dataset.bad |= {*range(300, 400)}
    with pytest.raises(TooManyBadVideos, match="37. bad ones among 37.. samples of 1000000"):
        for idx in range(300, 400):
            data[idx]


def test_too_few_samples_are_no_share():
    data = SafeDataset(Numbers(10**6, range(52)), max_bad_share=0.05)
    for idx in range(50):
        data[idx]
    with pytest.raises(TooManyBadVideos, match="51 bad ones among 101 samples of 1000000"):
        data[50]


def test_many_bad_samples_in_a_row_end_the_run():
    data = SafeDataset(Numbers(60, range(60)), max_bad_share=1.0)
    with pytest.raises(
        TooManyBadVideos, match=r"sample 0 is bad \(0\.mp4.* so are 50 .*data_prefix"
    ):
        data[0]


def test_testing_flags_a_bad_sample_under_its_own_label(tmp_path):
    names = ["good0.mp4", "gone.mp4", "lost.mp4", "good1.mp4"]
    some_good(tmp_path, 2)
    data = videos(tmp_path, names, test_mode=True, max_bad_share=1.0)
    samples = [data[i] for i in range(4)]
    assert [int(s["data_samples"].gt_label) for s in samples] == [0, 1, 2, 3]
    flags = [s["data_samples"].get("bad_path") for s in samples]
    assert flags == [None, str(tmp_path / "gone.mp4"), str(tmp_path / "lost.mp4"), None]
    assert [s["data_samples"].video_path for s in samples] == [str(tmp_path / n) for n in names]
    assert samples[1]["data_samples"].bad_video == "No such file or directory"
    assert samples[1]["inputs"].shape == samples[3]["inputs"].shape


def test_testing_keeps_what_is_annotated(tmp_path):
    """All else is of the other video, and ``annotation_keys`` tells which."""
    names = ["gone.mp4", *some_good(tmp_path, 1)]
    pack = [*PACK[:-1], dict(type="PackActionInputs", meta_keys=("filename", "total_frames"))]
    data = videos(tmp_path, names, [*READ, *pack], test_mode=True, max_bad_share=1.0)
    bad, good = (data[i]["data_samples"] for i in range(2))
    assert bad.annotation_keys == ("filename",) and bad.filename == str(tmp_path / "gone.mp4")
    assert bad.total_frames == good.total_frames
    assert good.filename == str(tmp_path / "good0.mp4") and "annotation_keys" not in good


class Unlabeled(Numbers):
    """Samples whose label is read from the file."""

    def get_data_info(self, idx):
        return {"filename": f"{idx}.mp4"}

    def __getitem__(self, idx):
        return super().__getitem__(idx) | {"data_samples": ActionDataSample().set_gt_label(idx)}


@pytest.mark.parametrize("dataset", [Numbers, Unlabeled])
def test_testing_raises_where_no_metric_could_tell(dataset):
    """There is no data sample, or its label is that of the other video."""
    inner = dataset(3, {1})
    inner.test_mode = True
    data = SafeDataset(inner, max_bad_share=1.0)
    assert data[0]["x"] == 0
    with pytest.raises(BadVideo, match=r"1\.mp4: is bad"):
        data[1]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda f: f.unlink(), ".*img_00003.jpg: No such file or directory$"),
        (lambda f: f.write_bytes(f.read_bytes()[:20]), r"RawFrameDecode cannot read it \(error: "),
    ],
)
def test_bad_frames_are_named(tmp_path, damage, reason):
    folder = tmp_path / "video"
    folder.mkdir()
    for i in range(1, 7):
        cv2.imwrite(str(folder / f"img_{i:05}.jpg"), np.full((20, 20, 3), 30 * i, np.uint8))
    (tmp_path / "list.txt").write_text("video 6 0\n")
    read = [dict(type="SampleFrames", clip_len=6, frame_interval=1), dict(type="RawFrameDecode")]
    inner = dict(
        type="RawframeDataset",
        ann_file=str(tmp_path / "list.txt"),
        data_prefix=dict(img=str(tmp_path)),
        pipeline=[*read, *PACK],
    )
    data = SafeDataset(inner, on_bad_video="raise")
    assert data[0]["inputs"].shape[2] == 6
    damage(folder / "img_00003.jpg")
    with pytest.raises(BadVideo, match=f"video: {reason}"):
        data[0]


class Draws(Numbers):
    """Gives draws of all three generators."""

    def __getitem__(self, idx):
        draws = random.random(), np.random.rand(), float(torch.rand(()))
        return super().__getitem__(idx)["x"], draws


def test_an_index_with_a_seed_decides_all_draws():
    data = SafeDataset(Draws(20, {3}), max_bad_share=1.0)
    for idx in (5, 3):  # a good sample, and a bad one that another replaces
        read = []
        for before in (0, 7, 11):
            for _ in range(before):
                data[before]
            read.append(data[Index(idx, 2**40 + 1)])
        assert read[0] == read[1] == read[2] != data[Index(idx, 2)]
    assert data[5] != data[5]  # draws go on where there is no seed


def test_wrapped_and_pickled_data_sets_keep_the_policy(tmp_path):
    names = [*some_good(tmp_path, 2), "gone.mp4"]
    inner = videos(tmp_path, names).dataset
    data = SafeDataset(dict(type="RepeatDataset", dataset=inner, times=2), max_bad_share=0.5)
    assert len(data) == 6 and not data.test_mode
    copy = pickle.loads(pickle.dumps(data))
    assert copy[5]["inputs"].shape == copy[0]["inputs"].shape
    assert copy.metainfo == inner.metainfo


def test_wrong_arguments_are_refused():
    for policy, message in (
        (dict(on_bad_video="skip"), "'raise' or 'resample', got 'skip'"),
        (dict(max_bad_share=5), "from 0 to 1, got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            SafeDataset(Numbers(1), **policy)
