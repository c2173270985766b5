"""Which samples are bad, and how they are named."""

import errno

import av
import cv2
import numpy as np
import pytest
from mmaction.datasets.transforms import DecordInit, LoadRGBFromFile

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.errors import UserError
from mmvidformer.video.errors import BadVideo
from tests.video.toys import (
    PACK,
    READ,
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
