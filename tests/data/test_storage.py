"""Files on storage that fails for a moment."""

import builtins
import errno

import av
import numpy as np
import pytest

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.video import containers, pyav_reader, video
from mmvidformer.video.errors import BadVideo
from tests.video.toys import PACK, READ, Index, some_good, videos

pytestmark = pytest.mark.usefixtures("scope")

OURS = [dict(type="mmvidformer.VideoInit"), READ[1], dict(type="mmvidformer.VideoDecode"), *PACK]
STALE = OSError(errno.ESTALE, "Stale file handle")


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """Seconds that a process would have waited."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def fail(monkeypatch, module, name: str, error: Exception, times: int) -> None:
    """Let a function raise an error in its first calls."""
    function, left = getattr(module, name, getattr(builtins, name, None)), [error] * times

    def call(*args, **options):
        if left:
            raise left.pop()
        return function(*args, **options)

    monkeypatch.setattr(module, name, call, raising=False)


@pytest.mark.parametrize("test_mode", [False, True])
@pytest.mark.parametrize(
    ("place", "error"),
    [
        *(
            ("open", OSError(number, "it is away"))
            for number in (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
        ),
        ("open_container", av.error.OSError(errno.EIO, "Input/output error", "a.mp4")),
    ],
    ids=str,
)
def test_an_error_that_passes_costs_nothing(
    tmp_path, monkeypatch, pauses, place, error, test_mode
) -> None:
    data = videos(tmp_path, some_good(tmp_path, 3), OURS, test_mode, max_bad_share=0.0)
    whole = data[2]["inputs"]
    fail(monkeypatch, containers if place == "open" else pyav_reader, place, error, times=2)
    sample = data[2]
    assert int(sample["data_samples"].gt_label) == 2 and "bad_video" not in sample["data_samples"]
    assert sample["inputs"].shape == whole.shape
    assert pauses == [1, 4]


def test_a_third_error_makes_a_bad_video(tmp_path, monkeypatch, pauses) -> None:
    """Also where bad videos end the run."""
    reason = r"good0\.mp4: Stale file handle$"
    data = videos(tmp_path, some_good(tmp_path, 2), OURS, test_mode=True, max_bad_share=0.5)
    fail(monkeypatch, containers, "open", STALE, times=3)
    sample = data[0]["data_samples"]
    assert sample.bad_video == "Stale file handle" and pauses == [1, 4]
    fail(monkeypatch, containers, "open", STALE, times=3)
    with pytest.raises(BadVideo, match=reason):
        SafeDataset(data.dataset, "raise")[0]
    assert pauses == [1, 4, 1, 4]


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        PermissionError(errno.EACCES, "Permission denied"),
        av.error.InvalidDataError(1094995529, "Invalid data found when processing input"),
        OSError("no number"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_missing_or_damaged_file_is_not_tried_again(tmp_path, monkeypatch, pauses, error) -> None:
    """Only in the next epoch: a file may be there again."""
    data = videos(tmp_path, some_good(tmp_path, 3), OURS, test_mode=True, max_bad_share=0.5)
    fail(monkeypatch, containers, "open", error, times=1)
    assert "bad_video" in data[2]["data_samples"] and not pauses
    assert "bad_video" not in data[2]["data_samples"]


def test_errors_of_other_transforms_are_not_tried_again(tmp_path, pauses) -> None:
    def write_somewhere(results):
        raise OSError(errno.EIO, "Input/output error")

    data = videos(tmp_path, some_good(tmp_path, 2), [*OURS[:3], write_somewhere, *PACK])
    with pytest.raises(OSError, match="Input/output error") as caught:
        data[0]
    assert not isinstance(caught.value, BadVideo) and not pauses


def test_a_further_try_draws_the_same_clip(tmp_path, monkeypatch, pauses) -> None:
    """So that a run does not depend on the moods of a file server."""
    draw = dict(type="mmvidformer.SpanFrames", clip_len=2, frame_interval=1)
    pipeline = [dict(type="mmvidformer.VideoInit"), draw, *OURS[2:]]
    data = videos(tmp_path, some_good(tmp_path, 1), pipeline)
    expected = [data[Index(0, seed)]["inputs"].numpy() for seed in range(4)]
    assert any((clip != expected[0]).any() for clip in expected)
    for seed, clip in enumerate(expected):
        fail(monkeypatch, video.Video, "get_batch", STALE, times=1)
        np.testing.assert_array_equal(data[Index(0, seed)]["inputs"], clip)
    assert pauses == [1] * 4
