"""Clips that end with their video."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mmaction.datasets.transforms import SampleFrames

from mmvidformer.data.transforms.sampling import SpanFrames, TrimToVideo


def trimmed(sampler: object, total: int, multiple: int, start: int = 0) -> np.ndarray:
    """Frames (clips, T) from 0."""
    results = sampler(dict(total_frames=total, start_index=start, avg_fps=30))
    results = TrimToVideo(multiple).transform(results)
    return results["frame_inds"].reshape(results["num_clips"], results["clip_len"]) - start


@pytest.mark.parametrize(
    "total, multiple, expected",
    [
        (40, 2, [0, 2, 4, 6, 8, 10, 12, 14]),  # of 40 frames the first 16 span the clip
        (11, 1, [0, 2, 4, 6, 8, 10]),
        (12, 1, [0, 2, 4, 6, 8, 10]),
        (11, 4, [0, 2, 4, 6]),
        (9, 2, [0, 2, 4, 6]),
        (1, 1, [0]),
        (1, 2, [0, 0]),  # at least a tubelet
    ],
)
@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("option", ["loop", "repeat_last"])
def test_frames_that_exist(
    total: int, multiple: int, expected: list, start: int, option: str
) -> None:
    sampler = SampleFrames(8, 2, num_clips=1, out_of_bound_opt=option)
    np.random.seed(0)
    found = trimmed(sampler, total, multiple, start)
    if total > 16:  # anywhere
        found = found - found[0, 0]
    assert found.tolist() == [expected]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 60), st.integers(1, 3), st.sampled_from([1, 2]), st.booleans(), st.booleans())
def test_clips_of_a_video_have_one_length_and_no_frame_twice(
    total: int, clips: int, multiple: int, test_mode: bool, span: bool
) -> None:
    sampler = (
        SpanFrames(8, 3, clips, None, test_mode)
        if span
        else SampleFrames(8, 3, num_clips=clips, test_mode=test_mode)
    )
    found = trimmed(sampler, total, multiple)
    assert found.shape[0] == clips and found.shape[1] % multiple == 0
    if found.shape[1] > multiple:
        assert (np.diff(found) > 0).all()
    existing = 8 if total >= 24 else max(1, math.ceil(total / 3) - 1)
    assert found.shape[1] >= existing // multiple * multiple
