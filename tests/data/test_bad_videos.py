"""The policy for bad samples: which they are, and how they are named, replaced and counted."""

import pickle
import random

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample

from mmvidformer.data import bad_videos
from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.video.errors import BadVideo, TooManyBadVideos
from tests.video.toys import (
    PACK,
    READ,
    Index,
    Numbers,
    some_good,
    videos,
    write,
)

pytestmark = pytest.mark.usefixtures("scope")


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
