"""A long video gives a classifier of features as many clips as cover it."""

import numpy as np
import pytest

from mmvidformer.finetune.long_videos import MOST, cover_video

RATE = 8


@pytest.mark.parametrize("span", [12.0, 13.4, 64.0])
@pytest.mark.parametrize("frames", [241, 300, 997])
def test_clips_show_every_frame(frames: int, span: float) -> None:
    clips = cover_video(frames, RATE, span)
    center = (frames - span) / 2
    shown = {*range(int(center), int(center + span) + 1)}
    for first, last in clips:
        assert last - first + 1 == np.ceil(span)
        shown |= {*range(first, last + 1)}
    assert shown == {*range(frames)}
    assert len(clips) + 1 <= frames / span + 2


def test_clips_of_a_day_are_at_equal_distances() -> None:
    clips = cover_video(86400 * RATE, RATE, 12)
    assert len(clips) == MOST - 1
    steps = np.diff([first for first, _ in clips])
    assert np.sort(steps)[:-1] == pytest.approx(np.median(steps), abs=1)  # but for the center


@pytest.mark.parametrize(("frames", "span"), [(30 * RATE, 12), (997, 0)])
def test_short_videos_and_clips_of_whole_videos_have_their_center_view(frames, span) -> None:
    assert cover_video(frames, RATE, span) == []
