from dataclasses import replace
from pathlib import Path

import decord
import numpy as np
import pytest

from lab.synthetic.directions import CLASSES, DirectionsSpec, PhasesSpec
from lab.synthetic.render import DIRECTIONS, SHAPES, Look
from lab.synthetic.spec import Clip

SMALL = PhasesSpec(train=8, val=2, test=2, shortest=12, look=Look(frames=20, speed=3.0))


def centers(spec: PhasesSpec, clip: Clip) -> np.ndarray:
    """Centers of the object (T, 2)."""
    return spec.centers(clip, spec.rng(clip))


def steps(spec: PhasesSpec, clip: Clip) -> np.ndarray:
    """Direction of each step (T - 1, 2) on the torus."""
    size = spec.look.size
    moves = (np.diff(centers(spec, clip), axis=0) + size / 2) % size - size / 2
    return np.sign(np.round(moves, 6))


def test_phases_are_those_of_the_class() -> None:
    spec = PhasesSpec(train=64)
    for clip in spec.clips("train"):
        moves = steps(spec, clip)
        turns = np.flatnonzero((moves[1:] != moves[:-1]).any(1)) + 1
        parts = np.split(moves, turns)
        for part, direction in zip(parts, CLASSES[clip.verb], strict=True):
            assert (part == DIRECTIONS[direction]).all(), (clip, direction)
            assert len(part) >= 4
        assert 0.25 < turns[0] / (len(moves) + 1) < 0.5 < turns[1] / (len(moves) + 1)


def test_pixels_follow_the_path() -> None:
    spec = PhasesSpec(train=4, look=Look(frames=24, speed=4.0, texture=0.0))
    clip = spec.clips("train")[3]
    frames, moves = spec.draw(clip).astype(int), steps(spec, clip)
    for i in (0, 12, 22):
        shifted = [np.roll(frames[i], tuple(np.array(d[::-1]) * 4), (0, 1)) for d in
                   DIRECTIONS.values()]  # fmt: skip
        errors = [np.abs(frame - frames[i + 1]).sum() for frame in shifted]
        assert list(DIRECTIONS.values())[int(np.argmin(errors))] == tuple(moves[i])


@pytest.mark.parametrize(("ratio", "phases"), [(0.25, 1), (0.5, 2)])
def test_classes_with_equal_first_phases_look_equal(ratio: float, phases: int) -> None:
    """Their pixels are equal until the phases differ, whatever the length of the clip."""
    spec = PhasesSpec(train=48, look=Look(frames=40, texture=5.0))
    for clip in spec.clips("train")[:: 48 // 6]:
        alike = [c for c in range(8) if CLASSES[c][:phases] == CLASSES[clip.verb][:phases]]
        clips = [spec.draw(replace(clip, verb=c)) for c in alike]
        assert len({len(frames) for frames in clips}) == 1
        assert len(alike) == 2 ** (3 - phases)
        seen = int(ratio * len(clips[0]))
        for frames in clips[1:]:
            np.testing.assert_array_equal(frames[:seen], clips[0][:seen])
            assert (frames[-1] != clips[0][-1]).any()


def test_classes_with_other_first_phases_differ_at_once() -> None:
    clip = SMALL.clips("train")[0]
    right, left = (SMALL.draw(replace(clip, verb=c)) for c in (0, 4))
    np.testing.assert_array_equal(right[0], left[0])
    assert (right[1] != left[1]).any()


def test_single_frames_do_not_reveal_the_class() -> None:
    spec = PhasesSpec(train=8 * 1000)
    ends = {c: [] for c in range(8)}
    for clip in spec.clips("train"):
        ends[clip.verb].append(centers(spec, clip)[-1] / spec.look.size)
    for places in ends.values():
        counts, *_ = np.histogram2d(*np.array(places).T, bins=4, range=[[0, 1], [0, 1]])
        chi_square = ((counts - 1000 / 16) ** 2 / (1000 / 16)).sum()
        assert chi_square < 44.3  # 15 degrees of freedom, p = 1e-4


def test_balance_and_lengths() -> None:
    clips = PhasesSpec().clips("train")
    assert {(clip.verb, clip.noun) for clip in clips[:32]} == {
        (c, s) for c in range(8) for s in range(len(SHAPES))
    }
    lengths = {len(centers(PhasesSpec(), clip)) for clip in clips}
    assert lengths == set(range(24, 41))


def test_files_and_lists(tmp_path: Path) -> None:
    assert SMALL.write(tmp_path)
    assert not SMALL.write(tmp_path)
    lines = [line.split() for line in (tmp_path / "train.txt").read_text().splitlines()]
    clips = SMALL.clips("train")
    assert [(path, int(label)) for path, label in lines] == [(SMALL.path(c), c.verb) for c in clips]
    assert (tmp_path / "classes.txt").read_text().splitlines()[1] == "right down left"
    drawn = SMALL.draw(clips[5])
    decoded = decord.VideoReader(str(tmp_path / SMALL.path(clips[5]))).get_batch(range(len(drawn)))
    assert np.abs(decoded.asnumpy().astype(int) - drawn).mean() < 8


def test_another_kind_of_dataset_needs_another_folder(tmp_path: Path) -> None:
    DirectionsSpec(train=1, val=1, test=1, look=Look(frames=2)).write(tmp_path)
    with pytest.raises(FileExistsError, match="other arguments"):
        SMALL.write(tmp_path)
