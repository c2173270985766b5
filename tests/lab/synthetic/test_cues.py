"""Clips of objects that replace one another."""

from dataclasses import replace

import numpy as np
import pytest

from lab.synthetic.cues import CuesSpec
from lab.synthetic.render import Look

SMALL = CuesSpec(train=32, val=0, test=0, look=Look(32, frames=7, texture=5.0))


def test_names_and_balance() -> None:
    assert SMALL.class_names[:3] == [
        "circle circle circle",
        "circle circle square",
        "circle square circle",
    ]
    verbs = [clip.verb for clip in SMALL.clips("train")]
    assert np.bincount(verbs).tolist() == [4] * 8
    assert len(CuesSpec(cues=5, kinds=4, asked=2).class_names) == 16


@pytest.mark.parametrize("number", range(3))
def test_classes_look_equal_until_they_differ(number: int) -> None:
    """The parts of 7 frames have 3, 2 and 2."""
    clip = SMALL.clips("train")[number]
    frames = {verb: SMALL.draw(replace(clip, verb=verb)) for verb in range(8)}
    for verb, other, equal in [(0, 4, []), (0, 1, range(5)), (2, 0, [0, 1, 2, 5, 6])]:
        same = [bool((a == b).all()) for a, b in zip(frames[verb], frames[other], strict=True)]
        if equal:
            assert [i for i, found in enumerate(same) if found] == list(equal)
        else:
            assert same == [False] * 3 + [True] * 4


def test_nothing_repeats_the_asked_objects() -> None:
    spec = CuesSpec(train=64, cues=4, asked=1, kinds=4, look=Look(32, frames=4))
    for clip in spec.clips("train")[:4]:
        drawn = [spec.draw(replace(clip, verb=verb)) for verb in range(4)]
        for frames in drawn[1:]:
            np.testing.assert_array_equal(frames[1:], drawn[0][1:])
            assert (frames[0] != drawn[0][0]).any()


def test_objects_jump_and_move() -> None:
    spec = replace(SMALL, look=Look(32, frames=6, texture=0.0, colors="plain", speed=4.0))
    frames = spec.draw(spec.clips("train")[0]).astype(int)
    steps = np.abs(np.diff(frames, axis=0)).sum((1, 2, 3))
    assert (steps > 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": 5}, "kinds must be 2 to 4, got 5"),
        ({"asked": 4}, r"asked must be 1 to 3 \(cues\), got 4"),
        ({"asked": 0}, r"asked must be 1 to 3 \(cues\), got 0"),
    ],
)
def test_wrong_numbers(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CuesSpec(**options)
