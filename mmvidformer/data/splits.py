"""Training, validation and test: their names, and which videos are in which."""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from random import Random

import numpy as np

from mmvidformer.errors import UserError

SPLITS = ("train", "val", "test")
# Their names in folders and columns, in small letters, as in HuggingFace's folders of images.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
SHARE = 0.15  # of validation and of test, if nothing else is said
MOST_PARTS = 100  # equal parts, of which a split with groups has some
TOLERANCE = 0.01  # of the share of such a split
Labels = Sequence[Sequence[Hashable]]  # classes of each video, one or several


def split_of(name: str) -> str | None:
    """Return the split that a name means, if any."""
    return SPLIT_NAMES.get(name.lower())


def split_in_name(file: Path) -> str:
    """Return the split that a word in the name of a file means; ``''`` if there is none."""
    words = re.split("[-_.]", file.stem)
    return next((split for word in words if (split := split_of(word))), "")


def check_shares(val: float, test: float) -> None:
    """Raise a ``UserError`` if the shares of validation and test leave nothing for training."""
    if min(val, test) < 0 or val + test >= 1:
        raise UserError(f"val and test must be 0 or more and below 1 together, got {val}, {test}")


def draw_splits(
    labels: Labels,
    groups: Sequence[Hashable],
    val: float = SHARE,
    test: float = SHARE,
    seed: int = 0,
    by_class: bool = False,
) -> list[str]:
    """Draw the split of each video.

    They are drawn in equal parts (``draw_folds``), so that classes have about the same shares in
    all splits. The shares are as near as the groups allow.

    Args:
        labels: Classes of each video.
        groups: Group of each video, which is in one split.
        val: Share of validation.
        test: Share of testing.
        seed: Random seed.
        by_class: Whether classes, of which a video has one, are drawn one by one, if no video
            shares its group: the shares of each class are rounded, to at least one video each,
            while one is left for training. The draw of a class does not depend on other classes,
            unless all have one video.

    Raises:
        UserError: If the shares leave nothing for training.
    """
    check_shares(val, test)
    unit_count = len(set(groups))
    if by_class and unit_count == len(labels):
        splits = _draw_by_class([of_video[0] for of_video in labels], val, test, seed)
        if {*splits} != {"train"}:
            return splits
    splits = ["train"] * len(labels)
    if unit_count < 2 or not val + test:
        return splits
    count = min(_count_parts(val, test), unit_count)
    parts = draw_folds(labels, groups, count, seed)
    sizes = np.bincount(parts, minlength=count)
    order = np.lexsort((sizes, np.abs(sizes - sizes.mean())))  # the medium ones are held out
    for part, split in zip(order, _held_out(count, val, test), strict=False):
        for video in np.flatnonzero(parts == part):
            splits[video] = split
    return splits


def draw_splits_of_folds(
    labels: Labels,
    groups: Sequence[Hashable],
    folds: Sequence[str],
    val: float = 0.0,
    seed: int = 0,
    by_class: bool = False,
) -> dict[str, list[str]]:
    """Return the split of each video in each fold: its own videos are the test.

    Args:
        labels: Classes of each video.
        groups: Group of each video.
        folds: Name of the fold of each video; empty if it is for training in all.
        val: Share of validation, of the other videos of a fold.
        seed: Random seed.
        by_class: See ``draw_splits``.

    Raises:
        UserError: If there are fewer than two folds.
    """
    names = sorted({*folds} - {""}, key=order_of_fold)
    if len(names) < 2:
        raise UserError(f"there must be two folds at least, got {', '.join(names) or 'none'}")
    splits_of = {}
    for name in names:
        splits = np.array(["test"] * len(folds), object)
        others = [number for number, fold in enumerate(folds) if fold != name]
        splits[others] = draw_splits(
            [labels[number] for number in others],
            [groups[number] for number in others],
            val,
            0.0,
            seed,
            by_class,
        )
        splits_of[name] = splits.tolist()
    return splits_of


def order_of_fold(name: str) -> tuple[int, str]:
    """Return what names of folds are sorted by, so that 10 comes after 9."""
    return len(name), name


def _draw_by_class(labels: Sequence[Hashable], val: float, test: float, seed: int) -> list[str]:
    members: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        members.setdefault(str(label), []).append(number)
    splits = ["train"] * len(labels)
    for name, numbers in members.items():
        Random(f"{seed}/{name}").shuffle(numbers)
        for number, split in zip(numbers, _held_out(len(numbers), val, test), strict=False):
            splits[number] = split
    return splits


def _held_out(count: int, val: float, test: float) -> list[str]:
    """Return the splits of the first of ``count`` shuffled units; the others are for training.

    The shares are rounded, but to at least one unit each, while one is left for training.
    """
    drawn: list[str] = []
    for split, share in (("val", val), ("test", test)):
        most = count - len(drawn) - 1
        drawn += [split] * (min(max(1, round(count * share)), most) if share else 0)
    return drawn


def _count_parts(val: float, test: float) -> int:
    """Return the least number of equal parts of which some have the shares, about."""
    shares = [share for share in (val, test) if share]
    for count in range(len(shares) + 1, MOST_PARTS):
        errors = [abs(max(1, round(share * count)) / count - share) for share in shares]
        if all(e <= min(TOLERANCE, s / 10) for e, s in zip(errors, shares, strict=True)):
            return count
    return MOST_PARTS


def draw_folds(labels: Labels, groups: Sequence[Hashable], count: int, seed: int = 0) -> np.ndarray:
    """Draw the fold of each video (n,), from 0, so that each has about the same share of a class.

    Groups, the largest first, each go where the shares of their classes, and the numbers of videos,
    become the most even over the folds. scikit-learn's ``StratifiedGroupKFold`` is similar; but
    here a video may have any number of classes, and a class fewer videos than there are folds.

    Args:
        labels: Classes of each video.
        groups: Group of each video, which is in one fold.
        count: Number of folds.
        seed: Random seed.

    Raises:
        UserError: If there are fewer groups than folds.
    """
    numbers = {group: number for number, group in enumerate(sorted(set(groups), key=str))}
    if not 2 <= count <= len(numbers):
        unit = "groups" if len(numbers) < len(groups) else "videos"
        raise UserError(f"folds must be 2 to {len(numbers)}, the number of {unit}, got {count}")
    columns: dict[Hashable, int] = {}
    sizes = Counter(numbers[group] for group in groups)
    counts: list[Counter[int]] = [Counter() for _ in numbers]  # of the classes of each group
    for of_video, group in zip(labels, groups, strict=True):
        counts[numbers[group]].update(columns.setdefault(name, len(columns)) for name in of_video)
    signatures = [tuple(sorted(of_group.items())) for of_group in counts]
    totals = np.zeros(len(columns) + 1)
    for number, of_group in enumerate(counts):
        of_group[len(columns)] = sizes[number]  # the last column is that of all videos
        totals[[*of_group]] += [*of_group.values()]
    shares = np.zeros((count, len(totals)))  # of each class, by fold
    folds = np.zeros(len(numbers), int)
    shuffled = np.random.RandomState(seed).permutation(len(numbers))
    for number in sorted(shuffled, key=lambda number: (-sizes[number], signatures[number])):
        classes = [*counts[number]]
        added = np.array([*counts[number].values()]) / totals[classes]
        candidates = shares[:, classes] + np.eye(count)[..., None] * added  # (fold, folds, classes)
        unevenness = candidates.var(1).sum(1)
        fold = np.isclose(unevenness, unevenness.min(), atol=0).argmax()  # whatever the rounding
        shares[fold, classes] += added
        folds[number] = fold
    return folds[[numbers[group] for group in groups]]
