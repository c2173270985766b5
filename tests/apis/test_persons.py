"""Persons of files and streams: the same answers, and none over a cut."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.apis import Capture, Recognizer
from mmvidformer.apis.detector import Person
from mmvidformer.config.fragments import merge
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.tasks.stated_boxes import StatedBoxes
from mmvidformer.tasks.table import find_task
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.writer import VideoOutput
from tests.video.test_cuts import shot

CUT = 20  # frames, at 10 a second


@pytest.fixture
def recognizer(cfg, tmp_path: Path, monkeypatch) -> Recognizer:
    """A model of boxes with random weights; the detector sees two persons who stand."""
    cfg.model.backbone.update(scheme="spacetime", temporal_depth=4, stem=dict(tubelet=(2, 8, 8)))
    lists = VideoLists(tmp_path, ("walk", "sit"), {}, ",")
    merge(cfg, find_task("boxes").fragment(cfg, lists))
    set_video_backend(cfg, "pyav")
    persons = [Person((0.1, 0.2, 0.4, 0.8), 0.9), Person((0.6, 0.2, 0.9, 0.8), 0.85)]
    monkeypatch.setattr("mmvidformer.apis.parts.load_detector", lambda _: lambda *frame: persons)
    torch.manual_seed(0)
    return Recognizer(cfg, None)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """Two shots of 2 and 1.5 s."""
    with VideoOutput(tmp_path / "a.mp4", 10) as output:
        for image in np.concatenate([shot(1, CUT), shot(2, 15)]):
            output.add(image)
    return tmp_path / "a.mp4"


def rows_of(predictions) -> list[tuple]:
    return [(one.seconds, one.track, one.box) for one in predictions]


def scores_of(predictions) -> np.ndarray:
    return np.stack([one.probabilities["class"] for one in predictions])


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("rate", [1, 4, 25])
def test_a_stream_gives_the_answers_of_the_file(recognizer, video, rate, track) -> None:
    if track:
        pytest.importorskip("trackers", reason="needs trackers")
    expected = list(recognizer.timeline(video, rate=rate, track=track))
    frames = [pixels for _, _, pixels in Capture(video).frames()]
    for source, fps in ((Capture(video), None), (iter(frames), 10)):
        streamed = list(recognizer.stream(source, fps, rate=rate, track=track))
        assert rows_of(streamed) == [
            (pytest.approx(seconds), track, box) for seconds, track, box in rows_of(expected)
        ]
        np.testing.assert_allclose(scores_of(streamed), scores_of(expected), atol=1e-4)


def test_tracks_and_clips_end_at_a_cut(recognizer, video) -> None:
    pytest.importorskip("trackers", reason="needs trackers")
    found = list(recognizer.timeline(video, rate=5, track=True))
    assert {one.track for one in found if one.start < 2} == {1, 2}
    assert {one.track for one in found if one.start >= 2} == {3, 4}
    alone = list(recognizer.timeline(video, rate=5))
    near = [number for number, one in enumerate(found) if abs(one.start - 2) < 0.3]
    apart = np.abs(scores_of(found) - scores_of(alone)).max(axis=1)
    assert apart[near].max() > 1e-4 and np.delete(apart, near).min() < 1e-6
    whole = list(recognizer.timeline(video, rate=5, track=True, cuts="none"))
    assert {one.track for one in whole} == {1, 2}
    np.testing.assert_allclose(scores_of(whole), scores_of(alone), atol=1e-6)


def test_each_video_counts_from_1_and_a_hundred_persons_are_answered(
    recognizer, video, monkeypatch
) -> None:
    pytest.importorskip("trackers", reason="needs trackers")
    for _ in range(2):
        assert {
            one.track for one in recognizer.timeline(video, rate=2, track=True, cuts="none")
        } == {1, 2}
    crowd = [
        Person((x / 12, y / 12, (x + 0.6) / 12, (y + 0.9) / 12), 0.9)
        for x in range(10)
        for y in range(10)
    ]
    monkeypatch.setattr("mmvidformer.apis.parts.load_detector", lambda _: lambda *frame: crowd)
    tracks = [one.track for one in recognizer.timeline(video, rate=2, track=True, cuts="none")]
    assert tracks == [*range(1, 101)] * 7  # 3.5 s


def test_an_answer_comes_half_a_clip_after_its_moment(recognizer) -> None:
    """A clip takes 8 frames."""
    seen = []

    def frames():
        for number, image in enumerate(shot(1, 40)):
            seen.append(number)
            yield image

    late = [len(seen) / 10 - one.start for one in recognizer.stream(frames(), 10, rate=1)]
    assert len(late) == 8 and max(late) <= 0.7


def test_nobody_and_no_frames(recognizer, video, monkeypatch) -> None:
    monkeypatch.setattr("mmvidformer.apis.parts.load_detector", lambda _: lambda *x: [])
    assert not list(recognizer.timeline(video, rate=5))
    assert not list(recognizer.stream(Capture(video), rate=5))
    assert not list(recognizer.stream(iter(()), 10))
    with pytest.raises(UserError, match="frame rate of the frames is unknown, set fps"):
        next(recognizer.stream(iter(())))
    with pytest.raises(UserError, match="rate must be positive, got 0 times a second"):
        next(recognizer.timeline(video, rate=0))


@pytest.mark.parametrize("track", [False, True])
def test_a_box_after_the_end_is_of_another_video(recognizer, video, track) -> None:
    if track:
        pytest.importorskip("trackers", reason="needs trackers")
    boxes = [StatedBoxes(second, [(0.1, 0.2, 0.4, 0.8)], [None]) for second in (1.0, 3.9, 5.0)]
    assert len(list(recognizer.timeline(video, boxes=boxes[:2], track=track))) == 2
    with pytest.raises(BadVideo, match=r"a.mp4: lasts 3.50 s, and its last box is at 5 s; is it"):
        list(recognizer.timeline(video, boxes=boxes, track=track))
