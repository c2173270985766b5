"""Intervals of shares, with groups and without, and of metrics over folds."""

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_1samp

from mmvidformer.finetune.tally import Tally, mean_interval
from tests.finetune.tallies import without_groups


@pytest.mark.parametrize(("right", "count"), [(3, 4), (0, 5), (7, 7), (61, 120), (1, 1)])
def test_without_groups_it_is_wilsons(right, count) -> None:
    expected = binomtest(right, count).proportion_ci(method="wilson")
    tally = Tally.of({str(number): number < right for number in range(count)}, {})
    assert tally == without_groups(right, count)
    assert tally.interval() == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_answers_are_counted_by_group() -> None:
    answers = {"a": True, "b": False, "c": True, "d": True}
    tally = Tally.of(answers, {"a": "x", "b": "x", "c": "c", "d": ""})
    assert sorted(tally.groups) == [(1, 1), (1, 1), (1, 2)]
    assert (tally.right, tally.count, tally.share) == (3, 4, 0.75)
    assert "n = 4 in 3 groups" in str(tally)
    assert Tally.pool([tally, tally]).count == 8 and str(Tally(())) == "no test"


@pytest.mark.parametrize(
    ("groups", "least", "most"),
    [
        (((10, 10),) * 4, 4, 4),  # all right: as many videos as groups
        (((0, 9),) * 3, 3, 3),
        (((5, 10),), 1, 1),
        (((10, 10), (0, 10)) * 10, 15, 20),  # a group answers as one
        (((5, 10), (6, 10)) * 20, 350, 400),  # groups tell nothing
    ],
)
def test_how_many_videos_groups_are_worth(groups, least, most) -> None:
    assert least <= Tally(groups).effective_count() <= most


def draw_tally(rng: np.random.Generator, mean: float, spread: float, groups: int) -> Tally:
    """Draw groups of 10 videos whose difficulty is common (beta-binomial)."""
    shares = rng.beta(mean / spread, (1 - mean) / spread, groups)
    return Tally(tuple((int(rng.binomial(10, share)), 10) for share in shares))


@pytest.mark.parametrize("groups", [10, 30])
def test_it_covers_the_share_among_further_groups(groups) -> None:
    """Of 1,000 draws; an interval of the videos alone covers it far more rarely."""
    rng = np.random.default_rng(0)
    covered = {"groups": 0, "videos": 0}
    for _ in range(1000):
        tally = draw_tally(rng, 0.7, 0.5, groups)
        plain = without_groups(tally.right, tally.count)
        for name, counted in (("groups", tally), ("videos", plain)):
            low, high = counted.interval()
            covered[name] += low <= 0.7 <= high
    assert 930 <= covered["groups"] <= 990
    assert covered["videos"] < 750


def test_intervals_of_a_mean_over_folds() -> None:
    """Of ten folds, their variance is that of Student's test times 1 + 10 / 9."""
    values = np.random.default_rng(0).normal(0.6, 0.1, 10)
    plain = ttest_1samp(values, 0).confidence_interval(0.95)
    low, high = mean_interval(values)
    assert low + high == pytest.approx(plain.low + plain.high)
    assert high - low == pytest.approx((plain.high - plain.low) * (1 + 10 / 9) ** 0.5)
