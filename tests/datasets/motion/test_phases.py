from dataclasses import replace
from pathlib import Path

import decord
import numpy as np
import pytest

from mmvidformer.datasets.motion.phases import (
    CLASSES,
    PhasesSpec,
    best_share,
    list_phase_clips,
    make_phases,
    phase_frames,
    phase_path,
)
from mmvidformer.datasets.motion.render import DIRECTIONS, SHAPES, Look
from mmvidformer.datasets.motion.rules import MotionSpec, make_dataset

SMALL = PhasesSpec(train=8, val=2, test=2, shortest=12, look=Look(frames=20, speed=3.0))


def steps(spec: PhasesSpec, clip: object) -> np.ndarray:
    """Direction of each step (T - 1, 2) on the torus."""
    centres, _, _ = phase_path(spec, clip)
    size = spec.look.size
    return np.sign(np.round((np.diff(centres, axis=0) + size / 2) % size - size / 2, 6))


def test_the_class_is_what_is_drawn() -> None:
    spec = PhasesSpec(train=64)
    for clip in list_phase_clips(spec, "train"):
        first, second = phase_path(spec, clip)[1]
        moves = steps(spec, clip)
        parts = (moves[:first], moves[first:second], moves[second:])
        for part, direction in zip(parts, CLASSES[clip.verb], strict=True):
            assert len(part) >= 4
            assert (part == DIRECTIONS[direction]).all(), (clip, direction)


def test_pixels_move_as_the_path_says() -> None:
    spec = PhasesSpec(train=4, look=Look(frames=24, speed=4.0, texture=0.0))
    clip = list_phase_clips(spec, "train")[3]
    frames, moves = phase_frames(spec, clip).astype(int), steps(spec, clip)
    for i in (0, 12, 22):
        shifted = [np.roll(frames[i], tuple(np.array(d[::-1]) * 4), (0, 1)) for d in
                   DIRECTIONS.values()]  # fmt: skip
        errors = [np.abs(frame - frames[i + 1]).sum() for frame in shifted]
        assert list(DIRECTIONS.values())[int(np.argmin(errors))] == tuple(moves[i])


@pytest.mark.parametrize(("ratio", "phases"), [(0.25, 1), (0.5, 2)])
def test_classes_that_begin_alike_look_alike_so_far(ratio: float, phases: int) -> None:
    """The same pixels for all of them, whatever the length of the clip."""
    spec = PhasesSpec(train=48, look=Look(frames=40, shake=1.0, texture=5.0))
    for clip in list_phase_clips(spec, "train")[:: 48 // 6]:
        alike = [c for c in range(8) if CLASSES[c][:phases] == CLASSES[clip.verb][:phases]]
        clips = [phase_frames(spec, replace(clip, verb=c)) for c in alike]
        assert len({len(frames) for frames in clips}) == 1
        assert len(alike) == 2 ** (3 - phases)
        seen = int(ratio * len(clips[0]))
        for frames in clips[1:]:
            np.testing.assert_array_equal(frames[:seen], clips[0][:seen])
            assert (frames[-1] != clips[0][-1]).any()


def test_classes_that_begin_otherwise_differ_at_once() -> None:
    clip = list_phase_clips(SMALL, "train")[0]
    right, left = (phase_frames(SMALL, replace(clip, verb=c)) for c in (0, 4))
    np.testing.assert_array_equal(right[0], left[0])
    assert (right[1] != left[1]).any()


def test_single_frames_do_not_tell_the_class() -> None:
    spec = PhasesSpec(train=8 * 1000)
    ends = {c: [] for c in range(8)}
    for clip in list_phase_clips(spec, "train"):
        ends[clip.verb].append(phase_path(spec, clip)[0][-1] / spec.look.size)
    for places in ends.values():
        counts, *_ = np.histogram2d(*np.array(places).T, bins=4, range=[[0, 1], [0, 1]])
        chi_square = ((counts - 1000 / 16) ** 2 / (1000 / 16)).sum()
        assert chi_square < 44.3  # 15 degrees of freedom, p = 1e-4


def test_balance_and_lengths() -> None:
    clips = list_phase_clips(PhasesSpec(), "train")
    assert {(clip.verb, clip.noun) for clip in clips[:32]} == {
        (c, s) for c in range(8) for s in range(len(SHAPES))
    }
    lengths = {len(phase_path(PhasesSpec(), clip)[0]) for clip in clips}
    assert lengths == set(range(24, 41))


def test_best_shares() -> None:
    assert [best_share(ratio) for ratio in (0.1, 0.25, 0.5, 1.0)] == [0.25, 0.25, 0.5, 1.0]
    with pytest.raises(ValueError, match="at 0.3 of a clip a phase ends in some"):
        best_share(0.3)


def test_files_and_lists(tmp_path: Path) -> None:
    assert make_phases(SMALL, tmp_path)
    assert not make_phases(SMALL, tmp_path)
    lines = [line.split() for line in (tmp_path / "train.txt").read_text().splitlines()]
    clips = list_phase_clips(SMALL, "train")
    assert [(path, int(label)) for path, label in lines] == [(c.path, c.verb) for c in clips]
    assert (tmp_path / "classes.txt").read_text().splitlines()[1] == "right down left"
    drawn = phase_frames(SMALL, clips[5])
    decoded = decord.VideoReader(str(tmp_path / clips[5].path)).get_batch(range(len(drawn)))
    assert np.abs(decoded.asnumpy().astype(int) - drawn).mean() < 8


def test_another_kind_of_data_set_is_not_written_over(tmp_path: Path) -> None:
    make_dataset(MotionSpec(train=1, val=1, test=1, look=Look(frames=2)), tmp_path)
    with pytest.raises(FileExistsError, match="other arguments"):
        make_phases(SMALL, tmp_path)
    assert make_phases(SMALL, tmp_path, force=True)
    assert not list(tmp_path.glob("*.csv"))  # those of the first, whose clips are gone
    assert len(list((tmp_path / "train").iterdir())) == 8


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [({"shortest": 11}, r"12 to frames \(40\), got 11"), ({"shortest": 41}, "got 41"),
     ({"look": Look(size=80)}, "multiple of 64.*80")],
)  # fmt: skip
def test_wrong_arguments_are_named(kwargs: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        PhasesSpec(**kwargs)
