"""Right answers of a test, and intervals of what they say about further videos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

CONFIDENCE = 0.95
Z = 1.959963984540054  # of this confidence


class Tally(NamedTuple):
    """Right answers of a test, group by group. A group has videos that are alike.

    Attributes:
        groups: Number of right answers and of videos of each group, such as a person; of a video
            without a group, the video alone.
    """

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, answers: Mapping[str, bool], groups: Mapping[str, str]) -> Tally:
        """Count answers by the groups of the videos, if they have any."""
        counts: dict[tuple[str, str], list[int]] = {}
        for video, is_right in answers.items():
            group = groups.get(video)
            of_group = counts.setdefault(("group", group) if group else ("video", video), [0, 0])
            of_group[0] += is_right
            of_group[1] += 1
        return cls(tuple((right, count) for right, count in counts.values()))

    @classmethod
    def read(cls, groups: Iterable[Sequence[int]]) -> Tally:
        """Return a tally of what JSON holds of ``groups``."""
        return cls(tuple((right, count) for right, count in groups))

    @classmethod
    def pool(cls, tallies: Iterable[Tally]) -> Tally:
        """Return the tally of several tests, such as those of folds, which share no group."""
        return cls(tuple(group for tally in tallies for group in tally.groups))

    @property
    def right(self) -> int:
        """Number of right answers."""
        return sum(right for right, _ in self.groups)

    @property
    def count(self) -> int:
        """Number of videos."""
        return sum(count for _, count in self.groups)

    @property
    def share(self) -> float:
        """Share of right answers."""
        return self.right / self.count

    def effective_count(self) -> float:
        """Return how many videos without groups would tell as much.

        By the variance between groups, and the few degrees of freedom that it has (Korn and
        Graubard 1998). If all answers are right, or all are wrong, a group counts as one video.
        """
        rights, counts = np.array(self.groups, float).T
        count, group_count = counts.sum(), len(counts)
        if group_count == count:
            return count
        if group_count == 1 or self.right in (0, count):
            return group_count
        between = ((rights - self.share * counts) ** 2).sum() * group_count / (group_count - 1)
        alone = count * self.share * (1 - self.share)
        effective = count * alone / between if between > alone else count
        quantile = 0.5 + CONFIDENCE / 2
        few = student.ppf(quantile, count - 1) / student.ppf(quantile, group_count - 1)
        return max(effective * few**2, 1.0)

    def interval(self) -> tuple[float, float]:
        """Return Wilson's 95% interval of the share (1927), with ``effective_count``.

        It covers the share among further videos, of further groups if there are groups, for this
        trained model; of folds, for models that are trained alike. It does not cover other seeds.
        """
        n, p = self.effective_count(), self.share
        center = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return float(max(center - half, 0)), float(min(center + half, 1))

    def __str__(self) -> str:
        """Describe the share: ``'75.0% (30.1-95.4, n = 4)'``."""
        if not self.count:
            return "no test"
        low, high = self.interval()
        groups = f" in {len(self.groups)} groups" if len(self.groups) < self.count else ""
        return (
            f"{100 * self.share:.1f}% ({100 * low:.1f}-{100 * high:.1f}, n = {self.count}{groups})"
        )


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a 95% interval of the mean of a metric over folds, which share training videos.

    Student's, with the variance of Nadeau and Bengio (2003). It covers the mean of folds that are
    drawn anew from such videos.

    Args:
        values: Metric of each fold, two at least.
    """
    count = len(values)
    variance = np.var(values, ddof=1) * (1 / count + 1 / (count - 1))
    half = student.ppf(0.5 + CONFIDENCE / 2, count - 1) * np.sqrt(variance)
    return float(np.mean(values) - half), float(np.mean(values) + half)
