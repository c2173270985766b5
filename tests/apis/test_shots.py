"""No window crosses a cut: files, arrays, streams and many videos."""

from pathlib import Path

import numpy as np
import pytest

from mmvidformer.apis import Recognizer
from mmvidformer.apis.bulk.reading import Windows
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.tasks.joined_windows import list_segments
from mmvidformer.video.writer import VideoOutput
from tests.video.test_cuts import shot

WINDOWS = [(0, 1), (0.5, 1.5), (1, 2), (2, 2.4), (2.4, 3.4), (2.8, 3.8)]  # seconds; cuts: 2, 2.4

SHOTS = [0, 0, 0, 1, 2, 2]


@pytest.fixture
def frames() -> np.ndarray:
    """Shots of 2, 0.4 and 1.4 s, at 10 frames a second."""
    return np.concatenate([shot(1, 20), shot(2, 4), shot(3, 14)])


@pytest.fixture
def recognizer(cfg) -> Recognizer:
    set_video_backend(cfg, "pyav")
    return Recognizer(cfg, None)


def seconds_of(predictions) -> list[tuple[float, float]]:
    return [prediction.seconds for prediction in predictions]


@pytest.fixture
def video(frames, tmp_path: Path) -> Path:
    with VideoOutput(tmp_path / "a.mp4", 10) as output:
        for image in frames:
            output.add(image)
    return tmp_path / "a.mp4"


def test_windows_of_a_timeline(recognizer, frames, video) -> None:
    for source, options in ((video, {}), (frames, dict(fps=10))):
        windows = [*recognizer.timeline(source, 1, 0.5, **options)]
        assert seconds_of(windows) == [pytest.approx(window) for window in WINDOWS]
        opened = recognizer.pipeline.open(source, **options)
        assert recognizer.windows(opened, 1, 0.5) == [
            (round(10 * start), round(10 * end) - 1, shot)
            for (start, end), shot in zip(WINDOWS, SHOTS, strict=True)
        ]
        assert [window.shot for window in windows] == SHOTS
        assert [segment.end for segment in list_segments(windows)][-3:] == pytest.approx(
            [2, 2.4, 3.8]
        )
        whole = [*recognizer.timeline(source, 1, 0.5, cuts="none", **options)]
        assert len(whole) == 7 and whole[2].seconds == pytest.approx((1, 2))
        assert {window.shot for window in whole} == {0}
        left = recognizer.timeline(source, 1, 0.5, first=3, **options)
        assert seconds_of(left) == [pytest.approx(window) for window in WINDOWS[3:]]
    with pytest.raises(UserError, match="got 'x'"):
        next(recognizer.timeline(video, cuts="x"))


def test_a_window_has_the_frames_of_its_shot_alone(recognizer, frames) -> None:
    (short,) = [
        window
        for window in recognizer.timeline(frames, 1, 0.5, fps=10)
        if window.seconds == pytest.approx((2, 2.4))
    ]
    alone = recognizer(frames[20:24])
    np.testing.assert_allclose(short.scores["class"], alone.scores["class"], atol=1e-5)


def test_windows_of_a_stream_begin_anew(recognizer, frames) -> None:
    """As after a gap: what is left of a shot has no window."""
    windows = [*recognizer.stream(iter(frames), 10, window=1, stride=0.5)]
    expected = [(0, 1), (0.5, 1.5), (1, 2), (2.4, 3.4)]
    assert seconds_of(windows) == [pytest.approx(window) for window in expected]
    assert [window.shot for window in windows] == [0, 0, 0, 2]
    timeline = {window.seconds[0]: window for window in recognizer.timeline(frames, 1, 0.5, fps=10)}
    for window in windows:
        same = min(timeline.values(), key=lambda other: abs(other.start - window.start))
        np.testing.assert_allclose(window.scores["class"], same.scores["class"], atol=1e-5)
    assert len([*recognizer.stream(iter(frames), 10, window=1, stride=0.5, cuts="none")]) == 6
    with pytest.raises(UserError, match="cuts must be content or none, got 'scenes'"):
        next(recognizer.stream(iter(frames), 10, window=1, cuts="scenes"))


def test_windows_of_many_videos(recognizer, video) -> None:
    read = Windows(recognizer.pipeline, 1, 0.5, None)
    assert [where["seconds"] for _, where in read(str(video))] == [
        pytest.approx(window) for window in WINDOWS
    ]
    assert len([*Windows(recognizer.pipeline, 1, 0.5, None, "none")(str(video))]) == 7
