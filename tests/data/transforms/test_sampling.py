"""Samplers against their definitions, frame by frame in plain Python, over random sizes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mmaction.datasets import RawframeDataset
from mmengine.registry import DefaultScope

from mmvidformer.data.transforms.sampling import (
    AlignClips,
    SegmentFrames,
    SpanFrames,
)
from mmvidformer.errors import UserError
from mmvidformer.registry import TRANSFORMS
from mmvidformer.video.errors import BadVideo

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


@pytest.mark.parametrize("fps", [8.0, 12.5, 24.0, 29.97, 60.0])
def test_a_span_without_its_last_frame_keeps_the_interval(fps: float) -> None:
    transform = SpanFrames(8, 1, 3, target_fps=8, test_mode=True, include_last=False)
    found = sampled(transform, round(4 * fps), avg_fps=fps)
    for clip in found:
        expected = clip[0] + np.arange(8) * fps / 8
        assert (np.abs(clip - expected) <= 1).all()
    assert SpanFrames(8, 1, target_fps=8, include_last=False).sample(8, {}).tolist() == [
        [*range(8)]
    ]


@check
@example(2, 2, 1, 1, 1.0, 0, False)  # a span of less than a frame
@given(totals, lengths, intervals, st.integers(1, 5), rates, starts, st.booleans())
def test_span(total, length, interval, clips, fps, start, test_mode) -> None:
    transform = SpanFrames(length, interval, clips, target_fps=30, test_mode=test_mode)
    found = sampled(transform, total, start, avg_fps=fps)
    assert found.shape == (clips, length)
    assert (np.diff(found, axis=1) >= 0).all()
    span = max(length * interval * fps / 30, 1)
    if test_mode:
        for k, clip in enumerate(found):
            first = max(total - span, 0) * k / clips
            step = (span - 1) / (length - 1) if length > 1 else 0
            for i, frame in enumerate(clip):
                place = min(max(first + i * step, 0), total - 1)
                # Rounding errors may put a whole number on either side.
                assert frame in {math.floor(place - 1e-9), math.floor(place + 1e-9)}
    elif total > span >= length:
        assert (np.ptp(found, axis=1) <= math.ceil(span)).all()


@check
@example(total=1554, length=38, clips=3, start=0, test_mode=True)
@given(totals, lengths, st.integers(1, 3), starts, st.booleans())
def test_segments(total, length, clips, start, test_mode) -> None:
    found = sampled(SegmentFrames(length, clips, test_mode), total, start)
    assert found.shape == (clips, length)
    # As the official code, in floating point: 19 * (1553 / 38) is rounded up, 776.5 would be down.
    borders = [round(i * ((total - 1) / length)) for i in range(length + 1)]
    for number, clip in enumerate(found):
        for frame, low, high in zip(clip, borders[:-1], borders[1:], strict=True):
            assert low <= frame <= high
            if test_mode:
                assert frame == [(low + high) // 2, low, high][number]


@check
@given(totals, lengths, intervals, rates, starts, st.booleans())
def test_tiles(total, length, interval, fps, start, test_mode) -> None:
    transform = SpanFrames(length, interval, num_clips=None, test_mode=test_mode)
    found = sampled(transform, total, start, avg_fps=fps)
    span = max(length * interval * fps / 30, 1)
    whole, left = divmod(total, span)
    if abs(2 * left - span) > 1e-6:
        assert len(found) == max(1, whole + (2 * left >= span))
    step = (span - 1) / (length - 1) if length > 1 else 0
    for k, clip in enumerate(found):
        for i, frame in enumerate(clip):
            place = min(max(k * span + i * step, 0), total - 1)
            assert frame in {math.floor(place - 1e-9), math.floor(place + 1e-9)}


def sample(total: int, fps: float = 30, start_index: int = 0, **transform) -> np.ndarray:
    built = TRANSFORMS.build(transform)
    results = built({"total_frames": total, "avg_fps": fps, "start_index": start_index})
    assert results["clip_len"] == transform["clip_len"]
    return results["frame_inds"].reshape(results["num_clips"], -1)


def test_span_of_the_official_code() -> None:
    """The step of 8 x 32 is 255 / 7, in PySlowFast torch's linspace rounded down."""
    span = {"type": "SpanFrames", "clip_len": 8, "frame_interval": 32, "test_mode": True}
    expected = torch.linspace(0, 255, 8).long().numpy()
    np.testing.assert_array_equal(sample(300, **span), expected[None])
    np.testing.assert_array_equal(expected, [0, 36, 72, 109, 145, 182, 218, 255])
    # At 25 frames per second the span is 213.3 frames, and clips start at k / K of the other 86.7.
    found = sample(300, fps=25, num_clips=3, **span)
    step = (256 * 25 / 30 - 1) / 7
    for k, clip in enumerate(found):
        start = (300 - 256 * 25 / 30) * k / 3
        np.testing.assert_array_equal(clip, np.floor(start + step * np.arange(8)))
    # In shorter videos the last frame is repeated.
    np.testing.assert_array_equal(sample(100, start_index=1, **span)[0][:4], [1, 37, 73, 100])
    np.testing.assert_array_equal(sample(100, start_index=1, **span)[0][4:], [100] * 4)


def test_folders_of_frames_have_the_target_rate(tmp_path: Path) -> None:
    """MMAction2's RawframeDataset does not state a rate."""
    (tmp_path / "list.txt").write_text("clip 300 0\n")
    span = {"type": "mmvidformer.SpanFrames", "clip_len": 8, "frame_interval": 32}
    with DefaultScope.overwrite_default_scope("mmaction"):
        dataset = RawframeDataset(str(tmp_path / "list.txt"), [{**span, "test_mode": True}])
    np.testing.assert_array_equal(dataset[0]["frame_inds"], [1, 37, 73, 110, 146, 183, 219, 256])


def test_spans_in_training_start_wherever_they_fit() -> None:
    np.random.seed(0)
    span = {"type": "SpanFrames", "clip_len": 4, "frame_interval": 5, "target_fps": None}
    found = np.concatenate([sample(30, **span) for _ in range(300)])
    assert set(found[:, 0]) == set(range(10))  # starts are uniform below 10
    assert {int(np.ptp(clip)) for clip in found} == {19}


def test_tiles_follow_each_other() -> None:
    tile = {"type": "SpanFrames", "clip_len": 4, "frame_interval": 1, "num_clips": None}
    found = sample(36, **tile)
    np.testing.assert_array_equal(found.flatten(), np.arange(36))
    # A remainder of at least half a clip gets one, a shorter one does not.
    np.testing.assert_array_equal(sample(38, **tile)[9], [36, 37, 37, 37])
    assert len(sample(37, **tile)) == 9
    np.testing.assert_array_equal(sample(1, start_index=1, **tile), [[1, 1, 1, 1]])
    # At 60 frames per second, a clip of 4 frames at 30 spans 8.
    np.testing.assert_array_equal(sample(16, fps=60, **tile), [[0, 2, 4, 7], [8, 10, 12, 15]])


@pytest.mark.parametrize("fps", [25, 29.97, 30, 60])
def test_tiles_of_the_paper(fps: float) -> None:
    """TimeSformer, Table 8: clips that cover 410 seconds at any frame rate."""
    tile = {"type": "SpanFrames", "frame_interval": 32, "num_clips": None, "fps": fps}
    counts = [len(sample(int(410 * fps), clip_len=n, **tile)) for n in (8, 32, 64, 96)]
    assert counts == [48, 12, 6, 4]


def test_segments_have_three_fixed_clips() -> None:
    with pytest.raises(ValueError, match="most 3 in testing, got 4"):
        SegmentFrames(8, num_clips=4, test_mode=True)


def test_segments_of_the_official_code() -> None:
    """Views 1, 2, 3 of Something-Something are middles, starts and ends of the segments."""
    segment = {"type": "SegmentFrames", "clip_len": 4, "test_mode": True}
    # 29 / 4 = 7.25 frames per segment: 0-7, 7-14, 14-22, 22-29 (14.5 and 21.75 are rounded).
    found = sample(30, num_clips=3, **segment)
    np.testing.assert_array_equal(found, [[3, 10, 18, 25], [0, 7, 14, 22], [7, 14, 22, 29]])
    np.testing.assert_array_equal(sample(30, num_clips=2, **segment), found[:2])
    np.testing.assert_array_equal(sample(30, start_index=5, **segment), found[:1] + 5)
    np.testing.assert_array_equal(sample(2, **segment), [[0, 0, 0, 1]])  # 0-0, 0-0, 0-1, 1-1


def test_segments_in_training_are_drawn_from_all_frames() -> None:
    np.random.seed(0)
    segment = {"type": "SegmentFrames", "clip_len": 4}
    found = np.concatenate([sample(30, num_clips=2, **segment) for _ in range(200)])
    ranges = [set(range(0, 8)), set(range(7, 15)), set(range(14, 23)), set(range(22, 30))]
    assert [set(column) for column in found.T] == ranges


@pytest.mark.parametrize(
    "transform",
    [SpanFrames(4, 2), SpanFrames(4, 2, test_mode=True), SegmentFrames(4)],
    ids=repr,
)
def test_a_video_without_frames_is_named(transform) -> None:
    with pytest.raises(BadVideo, match="empty.mp4: there is no frame in it"):
        transform(dict(total_frames=0, start_index=0, avg_fps=30, filename="empty.mp4"))


def test_settings_are_shown() -> None:
    assert repr(SegmentFrames(4)) == "SegmentFrames(clip_len=4, num_clips=1, test_mode=False)"


@pytest.mark.parametrize("tubelet, starts", [(1, [5, 7, 11, 15]), (2, [5, 5, 9, 13])])
def test_clips_are_aligned_with_the_first(tubelet: int, starts: list[int]) -> None:
    steps = 2 * np.arange(3)
    clips = np.array([5, 8, 12, 16])[:, None] + steps
    results = dict(frame_inds=clips.reshape(-1), num_clips=4, clip_len=3)
    found = AlignClips(tubelet)(results)["frame_inds"].reshape(4, 3)
    np.testing.assert_array_equal(found, np.array(starts)[:, None] + steps)
    uneven = dict(frame_inds=np.array([0, 1, 3, 2, 3, 5]), num_clips=2, filename="a.mp4")
    with pytest.raises(ValueError, match=r"interval, got steps of \[1, 2\] from a.mp4") as one:
        AlignClips()(uneven)
    assert isinstance(one.value, UserError)  # while the test runs
    frozen = dict(frame_inds=np.array([0, 0, 3, 3]), num_clips=2)  # at a low rate
    with np.errstate(divide="raise"):
        assert AlignClips(2)(frozen)["frame_inds"].tolist() == [0, 0, 3, 3]
