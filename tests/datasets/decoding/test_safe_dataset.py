"""The policy for bad samples: how they are named, replaced and counted."""

import pickle

import cv2
import numpy as np
import pytest

from mmvidformer.datasets.decoding import safe_dataset as safe
from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.safe_dataset import SafeDataset
from tests.datasets.decoding.toys import (
    LENGTH,
    PACK,
    SIDE,
    Fails,
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
