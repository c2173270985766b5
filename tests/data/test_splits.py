"""Splits and folds: shares of classes, groups, small sets."""

from collections import Counter

import numpy as np
import pytest
from sklearn.model_selection import StratifiedGroupKFold

from mmvidformer.data.splits import draw_folds, draw_splits, draw_splits_of_folds


def unevenness(folds: np.ndarray, classes: np.ndarray, count: int) -> float:
    """Return the mean deviation of the classes' shares over folds, as scikit-learn does."""
    counts = np.zeros((count, classes.max() + 1))
    np.add.at(counts, (folds, classes), 1)
    return float((counts / counts.sum(0)).std(0).mean())


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("number_of_classes", [2, 3, 6])
def test_folds_are_as_even_as_those_of_scikit_learn(count, number_of_classes) -> None:
    ours, theirs = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        classes = rng.integers(0, number_of_classes, 100)
        groups = rng.integers(10, 40, 100)
        folds = draw_folds([[name] for name in classes], groups, count, seed)
        assert all(len({*folds[groups == group]}) == 1 for group in groups)
        expected = np.empty(100, int)
        splitter = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
        for fold, (_, test) in enumerate(splitter.split(classes, classes, groups)):
            expected[test] = fold
        ours.append(unevenness(folds, classes, count))
        theirs.append(unevenness(expected, classes, count))
    assert np.mean(ours) <= np.mean(theirs)


@pytest.mark.parametrize("seed", range(3))
def test_two_clips_of_a_class_are_in_two_folds(seed) -> None:
    """Scikit-learn refuses classes that are all smaller than the number of folds."""
    classes = [number // 2 for number in range(20)]
    folds = draw_folds([[name] for name in classes], range(20), 5, seed)
    assert np.bincount(folds).tolist() == [4] * 5
    assert all(folds[2 * name] != folds[2 * name + 1] for name in range(10))


def test_videos_of_several_classes() -> None:
    """Each of four classes, two to a video, has about a fifth of its 30 videos in each fold."""
    pairs = [(a, b) for a in "abcd" for b in "abcd" if a < b] * 10
    folds = draw_folds(pairs, range(60), 5)
    for name in "abcd":
        counts = Counter(fold for fold, pair in zip(folds, pairs, strict=True) if name in pair)
        assert min(counts.values()) >= 5 and max(counts.values()) <= 7


def test_videos_without_a_class() -> None:
    assert np.bincount(draw_folds([[]] * 10, range(10), 3)).tolist() == [4, 3, 3]


@pytest.mark.parametrize(
    ("groups", "count", "error"),
    [
        ("ppqq", 3, "folds must be 2 to 2, the number of groups, got 3"),
        ("pqrs", 5, "folds must be 2 to 4, the number of videos, got 5"),
        ("pqrs", 1, "folds must be 2 to 4"),
    ],
)
def test_more_folds_than_groups(groups, count, error) -> None:
    with pytest.raises(ValueError, match=error):
        draw_folds([["a"]] * 4, groups, count)


@pytest.mark.parametrize("shares", [(0.15, 0.15), (0.2, 0.1), (0.01, 0.3), (0.0, 0.5), (0.6, 0.2)])
def test_shares_of_videos_of_several_classes(shares) -> None:
    labels = [("a", "b") if number % 4 else ("c",) for number in range(400)]
    splits = draw_splits(labels, range(400), *shares)
    for name in "abc":
        of_class = [
            split for split, of_video in zip(splits, labels, strict=True) if name in of_video
        ]
        for split, share in zip(("val", "test"), shares, strict=True):
            assert of_class.count(split) / len(of_class) == pytest.approx(share, abs=0.03)


def test_classes_of_one_video_each() -> None:
    """Class by class, nothing would be held out."""
    labels = [[number] for number in range(10)]
    for by_class in (True, False):
        splits = draw_splits(labels, range(10), 0.2, 0.2, by_class=by_class)
        assert Counter(splits) == {"train": 6, "val": 2, "test": 2}


def test_a_video_without_fold_is_always_for_training() -> None:
    labels = [["a"]] * 6
    found = draw_splits_of_folds(labels, range(6), ["2", "10", "", "2", "10", ""], val=0.25)
    assert [*found] == ["2", "10"]
    for name, tested in (("2", [0, 3]), ("10", [1, 4])):
        assert [i for i, split in enumerate(found[name]) if split == "test"] == tested
        assert found[name].count("val") == 1
    with pytest.raises(ValueError, match="two folds at least, got 1"):
        draw_splits_of_folds(labels, range(6), ["1"] * 6)
