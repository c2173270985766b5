"""Samplers over random lengths, strides and sizes: in range, and equal to a direct definition.

The definitions here go frame by frame in plain Python; fractions where the arithmetic is exact.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmvidformer.datasets.transforms import (
    LimitToSegment,
    ObserveBefore,
    ObserveFirst,
    SegmentFrames,
    SpanFrames,
    TileFrames,
    UniformFrames,
)

check = settings(max_examples=100, deadline=None, derandomize=True)
totals = st.integers(1, 2000)
lengths = st.integers(1, 40)
intervals = st.integers(1, 40)
starts = st.sampled_from([0, 1, 7])
rates = st.sampled_from([1.0, 12.5, 23.976, 24.0, 25.0, 29.97, 30.0, 50.0, 59.94, 120.0])


def sampled(transform, total: int, start: int = 0, **keys) -> np.ndarray:
    """Frames (clips, T), from 0, after checking that all of them exist."""
    results = transform(dict(total_frames=total, start_index=start, **keys))
    inds = results["frame_inds"]
    assert np.issubdtype(inds.dtype, np.integer)
    assert inds.shape == (results["num_clips"] * results["clip_len"],)
    assert inds.min() >= start
    assert inds.max() < start + total
    repr(transform)
    return inds.reshape(results["num_clips"], -1) - start


@check
@given(totals, lengths, intervals, st.integers(1, 5), rates, starts, st.booleans())
def test_span(total, length, interval, clips, fps, start, test_mode) -> None:
    transform = SpanFrames(length, interval, clips, target_fps=30, test_mode=test_mode)
    found = sampled(transform, total, start, avg_fps=fps)
    assert found.shape == (clips, length)
    assert (np.diff(found, axis=1) >= 0).all()
    span = length * interval * fps / 30
    if test_mode:
        for k, clip in enumerate(found):
            first = max(total - span, 0) * k / clips
            step = (span - 1) / (length - 1) if length > 1 else 0
            for i, frame in enumerate(clip):
                place = min(max(first + i * step, 0), total - 1)
                # The last digit of a float may put a whole number on either side.
                assert frame in {math.floor(place - 1e-9), math.floor(place + 1e-9)}
    elif total > span >= length:
        assert (np.ptp(found, axis=1) <= math.ceil(span)).all()


@check
@given(totals, lengths, st.integers(1, 3), starts, st.booleans())
def test_segments(total, length, clips, start, test_mode) -> None:
    found = sampled(SegmentFrames(length, clips, test_mode), total, start)
    assert found.shape == (clips, length)
    # Python's round and NumPy's agree: halves go to the even number.
    borders = [round(Fraction(i * (total - 1), length)) for i in range(length + 1)]
    for number, clip in enumerate(found):
        for frame, low, high in zip(clip, borders[:-1], borders[1:], strict=True):
            assert low <= frame <= high
            if test_mode:
                assert frame == [(low + high) // 2, low, high][number]


@check
@given(totals, lengths, intervals, starts)
def test_tiles(total, length, interval, start) -> None:
    found = sampled(TileFrames(length, interval), total, start)
    span = length * interval
    left = total % span
    count = max(1, total // span + (2 * left >= span))
    expected = [
        [min(k * span + i * interval, total - 1) for i in range(length)] for k in range(count)
    ]
    assert found.tolist() == expected


@check
@given(totals, st.integers(1, 1000), intervals, starts)
def test_first_part(total, permille, interval, start) -> None:
    transform = ObserveFirst(permille / 1000, interval)
    found = sampled(transform, total, start)
    observed = max(1, total * permille // 1000)
    assert found.tolist() == [list(range(0, observed, interval))]


@check
@given(st.floats(0, 100), rates, st.sampled_from([0.1, 0.25, 0.5, 1.0]), st.integers(1, 30))
def test_before_an_action(action, fps, time_step, steps) -> None:
    transform = ObserveBefore(time_step, steps)
    total = 1 + math.ceil(action * fps)
    found = sampled(transform, total, 0, action_start=action, avg_fps=fps)[0]
    assert (np.diff(found) >= 0).all()
    # In this order of operations: exact arithmetic gives other frames.
    expected = [
        math.floor((action - (time_step + time_step * m)) * fps) for m in range(steps - 1, -1, -1)
    ]
    first = min((n for n in expected if n >= 1), default=1)
    assert (found + 1).tolist() == [n if n >= 1 else first for n in expected]


@check
@given(lengths, st.data(), st.integers(1, 4))
def test_thinned_out(length, data, clips) -> None:
    kept = data.draw(st.integers(1, length))
    inds = np.arange(clips * length) * 3
    results = UniformFrames(kept)(dict(frame_inds=inds.copy(), clip_len=length))
    found = results["frame_inds"].reshape(clips, kept)
    assert results["clip_len"] == kept
    for number, clip in enumerate(found):
        places = [round(Fraction(k * length, kept + 1)) for k in range(1, kept + 1)]
        places = list(range(length)) if kept == length else places
        assert clip.tolist() == [3 * (number * length + place) for place in places]


@check
@given(totals, st.integers(0, 2500), st.integers(0, 2500))
def test_segment_of_a_video(total, first, more) -> None:
    results = dict(total_frames=total, segment=(first, first + more), filename="a.mp4")
    if first >= total:
        with pytest.raises(ValueError, match=f"{first} to {first + more} of a.mp4 begins after"):
            LimitToSegment()(results)
        return
    results = LimitToSegment()(results)
    frames = [n for n in range(total) if first <= n <= first + more]
    assert (results["start_index"], results["total_frames"]) == (frames[0], len(frames))


@pytest.mark.parametrize(
    "transform",
    [SpanFrames(4, 2), SpanFrames(4, 2, test_mode=True), SegmentFrames(4), TileFrames(4, 2),
     ObserveFirst(0.5)],
    ids=lambda transform: type(transform).__name__,
)  # fmt: skip
def test_a_video_without_frames_is_named(transform) -> None:
    with pytest.raises(ValueError, match="empty.mp4 has no frames"):
        transform(dict(total_frames=0, start_index=0, avg_fps=30, filename="empty.mp4"))


def test_nothing_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        UniformFrames(0)
