"""Frame differences with logistic regression, beside the answers of a model."""

from pathlib import Path

import numpy as np
import pytest

from lab.synthetic.render import write_video
from mmvidformer.finetune import baseline
from mmvidformer.finetune.baseline import NAME, NEIGHBOR, frame_differences, try_baselines
from mmvidformer.finetune.outcome import compare_share
from tests.finetune.tallies import without_groups


@pytest.fixture
def squares(tmp_path) -> list[tuple[Path, int]]:
    """Videos of a square that moves to the right (class 0) or down (class 1)."""
    rows = []
    for number in range(12):
        label = number % 2
        path = tmp_path / f"{number}.mp4"
        frames = np.zeros((18, 48, 48, 3), np.uint8)
        for time in range(18):
            along, across = 2 * time, 16 + number % 3
            y, x = (along, across) if label else (across, along)
            frames[time, y : y + 12, x : x + 12] = 255
        write_video(path, frames, 10)
        rows.append((path, label))
    return rows


def test_directions_are_told_apart(squares) -> None:
    answers = try_baselines(squares[:8], squares[8:])
    right = {str(path): True for path, _ in squares[8:]}
    assert answers == {NAME: right, NEIGHBOR: right}


def test_unreadable_videos_count_as_wrong(squares, tmp_path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    bad = [(tmp_path / "bad.mp4", 0), (tmp_path / "missing.mp4", 1)]
    of_classifiers = try_baselines([*bad, *squares[:8]], [*squares[8:], *bad])
    for answers in of_classifiers.values():
        assert sum(answers.values()) == 4 and len(answers) == 6
        assert not answers[str(tmp_path / "bad.mp4")]


def test_nothing_to_learn_or_to_test(squares) -> None:
    assert not try_baselines(squares[:8:2], squares[8:])  # one class
    assert not try_baselines(squares[:8], [])


def test_long_lists_are_read_in_part(squares, monkeypatch) -> None:
    monkeypatch.setattr(baseline, "MOST", 4)
    assert len(try_baselines(squares, squares)[NEIGHBOR]) == 4


def test_a_still_video_has_no_differences(tmp_path) -> None:
    write_video(tmp_path / "still.mp4", np.full((12, 48, 48, 3), 90, np.uint8), 10)
    differences = frame_differences(tmp_path / "still.mp4")
    assert differences.shape == (8 * 24 * 24,) and differences.max() < 0.02


@pytest.mark.parametrize(
    ("right", "said"),
    [(9, "50.0% (23.7-76.3, n = 10)"), (5, "This does not beat them: try"), (1, "Nothing was")],
)
def test_a_result_beside_the_baseline(right, said) -> None:
    baselines = {NAME: without_groups(5, 10), NEIGHBOR: without_groups(4, 10)}
    text = compare_share(without_groups(right, 10), 0.2, baselines)
    assert said in text and "frame differences with logistic regression: 50.0%" in text
    assert "; frame differences with the nearest neighbor: 40.0%" in text
    assert ("This does not" in text) == (right == 5)
