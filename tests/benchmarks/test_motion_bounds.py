"""Bounds of the accuracies on generated datasets."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.motion_bounds import (
    anticipated,
    best_constant,
    best_of_cues,
    best_of_phases,
    best_of_sequences,
    forecast,
    main,
)
from lab.synthetic.cues import CuesSpec
from lab.synthetic.directions import PhasesSpec
from lab.synthetic.sequences import ACTIONS, SequencesSpec, distribution
from lab.synthetic.spec import MotionSpec


@pytest.mark.parametrize("past", [[], [(1, 2)], [(1, 2), (3, 3)], [(0, 1), (1, 2), (3, 0)]])
def test_forecast_is_the_sum_over_all_paths(past: list) -> None:
    def chances(past: list, ahead: int) -> np.ndarray:
        pairs = np.outer(*distribution(past, 0.7))
        if ahead == 1:
            return pairs
        return sum(pairs[a] * chances([*past, a], ahead - 1) for a in ACTIONS)

    for ahead in (1, 2, 3):
        found = forecast(past, ahead, 0.7)
        np.testing.assert_allclose(found, chances(past, ahead), atol=1e-12)
        assert found.sum() == pytest.approx(1)


def test_best_constant_prediction() -> None:
    labels = np.array([3, 3, 3, 1, 1, 0, 2, 2])
    assert best_constant(labels) == 3 / 8
    assert best_constant(labels, 2) == 5 / 8
    assert best_constant(labels, 9) == 1


def test_best_accuracy_of_phases() -> None:
    assert [best_of_phases(ratio) for ratio in (0.1, 0.25, 0.5, 1.0)] == [0.25, 0.25, 0.5, 1.0]
    with pytest.raises(ValueError, match="at 0.3 of a clip a phase ends in some"):
        best_of_phases(0.3)


def test_best_accuracy_of_cues() -> None:
    spec = CuesSpec(cues=4, kinds=3, asked=2)
    assert best_of_cues(spec, lambda shapes: [shapes[:2]]) == pytest.approx(1)
    assert best_of_cues(spec, lambda shapes: [shapes[1:]]) == pytest.approx(1 / 3)
    assert best_of_cues(spec, lambda shapes: [shapes[2:]]) == pytest.approx(1 / 9)
    assert best_of_cues(spec, lambda shapes: [None]) == pytest.approx(1 / 9)
    # Shapes of both objects without their order: 3 pairs of equal ones, 3 others in two orders.
    both = CuesSpec(cues=2, kinds=3, asked=2)
    assert best_of_cues(both, lambda shapes: [frozenset(shapes)]) == pytest.approx(6 / 9)
    assert best_of_cues(both, list) == pytest.approx(3 / 9)


def test_later_forecasts_are_better() -> None:
    spec = SequencesSpec(test=20)
    found = {time: best_of_sequences(spec, "test", time) for time in (2.0, 1.0, 0.25)}
    for earlier, later in ((2.0, 1.0), (1.0, 0.25)):
        assert all(np.array(found[later]) > np.array(found[earlier]) + 0.02)
    # With all actions seen, two nouns are equally likely after a single one.
    assert found[0.25] == pytest.approx((0.85, (10 * 0.85 + 0.5) / 11, 0.85 * 9 / 11))
    chance = best_constant(anticipated(spec, "test")[:, 0])
    assert found[2.0][0] > chance + 0.2


def printed(spec: MotionSpec, folder: Path, capsys: pytest.CaptureFixture) -> list[str]:
    (folder / "motion.json").write_text(json.dumps(spec.record()))
    assert main([str(folder)]) == 0
    return capsys.readouterr().out.splitlines()


def test_bounds_of_phases(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert printed(PhasesSpec(train=8, val=0, test=16), tmp_path, capsys) == [
        "train: best constant prediction 12.5%",
        "test: best constant prediction 12.5%",
        "best top-1 with 25% of each clip 25.0%",
        "best top-1 with 50% of each clip 50.0%",
        "best top-1 with 100% of each clip 100.0%",
    ]


def test_bounds_of_cues(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    spec = CuesSpec(train=8, val=0, test=0)
    assert printed(spec, tmp_path, capsys) == [
        "train: best constant prediction 12.5%",
        "best top-1 with all objects 100.0%",
        "best top-1 with the first 1 of 3 objects 25.0%",
        "best top-1 with the first 2 of 3 objects 50.0%",
        "best top-1 with all objects, but not their order 50.0%",
        "best top-1 with one frame, but not its place 25.0%",
    ]
    spec = CuesSpec(train=8, val=0, test=0, cues=3, asked=1)
    assert "best top-1 without the first 1 of 3 objects 50.0%" in printed(spec, tmp_path, capsys)


def test_bounds_of_sequences(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    spec = SequencesSpec(train=1, val=0, test=2, actions=3)
    lines = printed(spec, tmp_path, capsys)
    verbs = [verb for verb, _, _ in anticipated(spec, "test")]
    best = max(verbs.count(verb) for verb in verbs) / 4
    start = f"test, 4 segments: best constant prediction of verb, noun, action {best:.1%}, "
    assert lines[1].startswith(start)
    assert lines[-1].startswith(
        "test, best expected top-1 of verb, noun, action 0.25 s before 85.0%, 67.5%, "
    )
    assert len(lines) == 7


def test_other_folders_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "must be the record of a dataset of one of these presets" in capsys.readouterr().err


def test_too_many_sequences_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    spec = {"kinds": 3, "cues": 16}
    (tmp_path / "motion.json").write_text(json.dumps({"kind": "CuesSpec", "spec": spec}))
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "43046721 sequences of shapes are too many" in capsys.readouterr().err
