"""What is observed of a video: a first part, the time before an action, a segment."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmvidformer.data.transforms.sampling import LimitToSegment, ObserveBefore, ObserveFirst
from mmvidformer.registry import TRANSFORMS
from mmvidformer.video.errors import BadVideo

check = settings(max_examples=100, deadline=None, derandomize=True)
totals = st.integers(1, 2000)
rates = st.sampled_from([1.0, 12.5, 23.976, 24.0, 25.0, 29.97, 30.0, 50.0, 59.94, 120.0])


@check
@given(totals, st.integers(1, 1000), st.integers(1, 40), st.sampled_from([0, 1, 7]))
def test_first_part(total, permille, interval, start) -> None:
    results = dict(total_frames=total, start_index=start)
    found = ObserveFirst(permille / 1000, interval)(results)
    observed = max(1, total * permille // 1000)
    assert found["frame_inds"].tolist() == list(range(start, start + observed, interval))


@check
@given(st.floats(0, 100), rates, st.sampled_from([0.1, 0.25, 0.5, 1.0]), st.integers(1, 30))
def test_before_an_action(action, fps, time_step, steps) -> None:
    transform = ObserveBefore(time_step, steps)
    total = 1 + math.ceil(action * fps)
    results = dict(total_frames=total, start_index=0, action_start=action, avg_fps=fps)
    found = transform(results)["frame_inds"]
    assert 0 <= found.min() and found.max() < total
    assert (np.diff(found) >= 0).all()
    # Exact arithmetic, or another order of operations, gives other frames.
    expected = [
        math.floor((action - (time_step + time_step * m)) * fps) for m in range(steps - 1, -1, -1)
    ]
    first = min((n for n in expected if n >= 1), default=1)
    assert (found + 1).tolist() == [n if n >= 1 else first for n in expected]


@check
@given(totals, st.integers(0, 2500), st.integers(0, 2500))
def test_segment_of_a_video(total, first, more) -> None:
    results = dict(total_frames=total, segment=(first, first + more), filename="a.mp4")
    if first >= total:
        with pytest.raises(BadVideo, match=f"a.mp4: has {total} .* needs frame {first + 1};"):
            LimitToSegment()(results)
        return
    results = LimitToSegment()(results)
    frames = [n for n in range(total) if first <= n <= first + more]
    assert (results["start_index"], results["total_frames"]) == (frames[0], len(frames))


def test_frame_numbers_follow_floating_point() -> None:
    """RULSTM's expression, frame by frame; exact arithmetic gives other frames."""
    exact_differs = 0
    for start in range(110, 3000):
        found = ObserveBefore().frames(start / 30, fps=30).tolist()
        assert found == [math.floor((start / 30 - 0.25 * m) * 30) for m in range(14, 0, -1)]
        exact = [math.floor((Fraction(start, 30) - Fraction(m, 4)) * 30) for m in range(14, 0, -1)]
        exact_differs += sum(a != b for a, b in zip(found, exact, strict=True))
    assert 0.01 < exact_differs / (2890 * 14) < 0.03


def test_too_short_videos_are_named() -> None:
    results = {"filename": "P01_01.mp4", "action_start": 10.0, "avg_fps": 30.0}
    results |= {"start_index": 0, "total_frames": 292}
    assert ObserveBefore().transform(dict(results))["frame_inds"][-1] == 291
    with pytest.raises(BadVideo, match=r"P01_01\.mp4: has 291 frames.* 10\.00 s needs frame 292"):
        ObserveBefore().transform(results | {"total_frames": 291})


def test_low_frame_rates_give_the_first_frame() -> None:
    results = {"action_start": 9 / 30, "avg_fps": 2.0, "start_index": 1}
    assert ObserveBefore(num_steps=2).transform(results)["frame_inds"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("ratio", "interval", "total", "expected"),
    [
        (0.25, 1, 11, [0, 1]),
        (0.5, 1, 11, [0, 1, 2, 3, 4]),
        (1.0, 1, 3, [0, 1, 2]),
        (0.25, 1, 2, [0]),  # at least one frame
        (0.5, 2, 11, [0, 2, 4]),
    ],
)
def test_first_frames(ratio: float, interval: int, total: int, expected: list[int]) -> None:
    observe = ObserveFirst(ratio=ratio, frame_interval=interval)
    found = observe.transform({"total_frames": total, "start_index": 1})
    assert found["frame_inds"].tolist() == [i + 1 for i in expected]
    assert found["clip_len"] == len(expected)
    assert found["num_clips"] == 1


@pytest.mark.parametrize(
    ("fps", "interval", "total", "expected"),
    [
        (12, 1, 12, [0, 0, 1, 1, 2, 2]),  # a quarter is 3 frames
        (12, 3, 12, [0, 1]),
        (24, 1, 12, [0, 1, 2]),
        (30, 1, 40, [0, 1, 2, 3, 5, 6, 7, 8]),
        (48, 1, 24, [0, 2, 4]),
        (1, 1, 1, [0] * 24),
    ],
)
def test_first_frames_at_another_rate(
    fps: float, interval: int, total: int, expected: list[int]
) -> None:
    observe = ObserveFirst(ratio=0.25, frame_interval=interval, target_fps=24)
    found = observe({"total_frames": total, "start_index": 1, "avg_fps": fps})
    assert found["frame_inds"].tolist() == [i + 1 for i in expected]


@check
@given(totals, rates, rates)
def test_resampled_frames_are_those_that_a_player_shows(total, fps, target) -> None:
    results = dict(total_frames=total, start_index=0, avg_fps=fps)
    found = ObserveFirst(1.0, target_fps=target)(results)["frame_inds"].tolist()
    step = Fraction(fps) / Fraction(target)
    places = [k * step for k in range(len(found) + 1)]
    for frame, place in zip(found, places, strict=False):
        assert 0 <= frame < total
        assert float(place) - 1 - 1e-5 < frame <= float(place) + 1e-5
    assert places[-1] > total - 1e-4 and places[-2] < total


def test_whole_shares_are_not_rounded_down() -> None:
    for total in range(100, 4100, 100):
        for percent in range(1, 101):
            found = ObserveFirst(ratio=percent / 100).transform(
                {"total_frames": total, "start_index": 0}
            )
            assert found["clip_len"] == percent * total // 100


@pytest.mark.parametrize(
    ("kind", "kwargs", "match"),
    [
        ("ObserveFirst", {"ratio": 0}, "ratio must be above 0 and at most 1, got 0"),
        ("ObserveFirst", {"ratio": 1.1}, "ratio must be above 0 and at most 1, got 1.1"),
    ],
)
def test_invalid_arguments(kind: str, kwargs: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TRANSFORMS.build({"type": kind, **kwargs})


def test_a_video_without_frames_is_named() -> None:
    with pytest.raises(BadVideo, match="empty.mp4: there is no frame in it"):
        ObserveFirst(0.5)(dict(total_frames=0, start_index=0, filename="empty.mp4"))


def test_sampling_stays_within_the_segment() -> None:
    limit = TRANSFORMS.build({"type": "LimitToSegment"})
    sample = TRANSFORMS.build({"type": "SampleFrames", "clip_len": 4, "frame_interval": 3})
    for _ in range(30):
        out = sample(limit({"segment": (10, 29), "total_frames": 100, "start_index": 0}))
        assert out["frame_inds"].min() >= 10
        assert out["frame_inds"].max() <= 29
    assert limit({"segment": (10, 29), "total_frames": 20})["total_frames"] == 10
    with pytest.raises(BadVideo, match="a.mp4: has 10 frames, and its segment needs frame 11"):
        limit({"segment": (10, 29), "total_frames": 10, "filename": "a.mp4"})
