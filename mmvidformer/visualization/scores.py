"""What the saved scores of a test say: confusions, accuracy by class, accuracy by views."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MIDDLE = 2  # MMAction2's ThreeCrop gives left, right, middle


@dataclass(frozen=True)
class Scores:
    """Scores of a test.

    Attributes:
        values: (N, classes).
        labels: Classes (N,).
    """

    values: np.ndarray
    labels: np.ndarray


def read_scores(path: str | Path, task: str | None = None, number: int = 0) -> Scores:
    """Read what ``tools/test.py --dump FILE.npz`` wrote; videos that were bad are left out.

    Args:
        path: The file.
        task: Name of the task, where the head has several.
        number: Place of the task's label among a video's labels.

    Raises:
        ValueError: If it is no such file, has no such task, or views that are not averaged.
    """
    if Path(path).suffix != ".npz":
        raise ValueError(f"{path} is no .npz; write one with tools/test.py --dump FILE.npz")
    name = "scores" if task is None else f"scores_{task}"
    with np.load(path, allow_pickle=False) as file:
        if name not in file or "labels" not in file:
            raise ValueError(f"{path} has no {name} with labels; it has {', '.join(file)}")
        values, labels = file[name], file["labels"]
        if "bad_videos" in file:  # their scores are the policy's, not the model's
            good = ~file["bad_videos"]
            values, labels = values[good], labels[good]
    if not len(labels):
        raise ValueError(f"{path} has the scores of no video that could be read")
    labels = labels if labels.ndim == 1 else labels[:, number]
    if values.ndim != 2 or values.shape[1] <= labels.max():
        raise ValueError(
            f"{path}: expected scores (videos, classes) and labels below the classes, got "
            f"{values.shape} and labels up to {labels.max()}"
        )
    return Scores(values, labels)


def count_confusions(scores: Scores) -> np.ndarray:
    """Count the videos of each class (rows) by predicted class (columns)."""
    classes = scores.values.shape[1]
    counts = np.zeros((classes, classes), dtype=int)
    np.add.at(counts, (scores.labels, scores.values.argmax(axis=1)), 1)
    return counts


def most_confused(counts: np.ndarray, most: int) -> np.ndarray:
    """Choose at most ``most`` classes of the most frequent confusions, in ascending order.

    Pairs of classes are taken by how many videos of either went to the other, the largest first.
    """
    if len(counts) <= most:
        return np.arange(len(counts))
    both = np.triu(counts + counts.T, k=1)
    chosen: list[int] = []
    for flat in np.argsort(-both, axis=None, kind="stable"):
        new = [one for one in np.unravel_index(flat, both.shape) if one not in chosen]
        if len(chosen) + len(new) > most:
            break
        chosen.extend(map(int, new))
    return np.sort(np.array(chosen, dtype=int))


def accuracy_by_views(
    scores: np.ndarray, labels: np.ndarray, clips: int, crops: int, fuse: str = "score"
) -> dict[int, dict[int, float]]:
    """Top-1 accuracy with fewer views, from one test that kept all of them.

    With MMAction2's ``SampleFrames`` a test of k clips sees some of the clips of a test of K where
    K - 1 is a multiple of k - 1 (for k = 1, where K is odd). Only these k are told, so that each
    figure is that of a test with these clips, up to the rounding of a clip's first frame. One crop
    is the middle one of the three, which may see more of a frame than a config's ``CenterCrop``.

    Args:
        scores: Logits (N, crops x clips, classes), crop by crop as MMAction2 has them.
        labels: Classes (N,).
        clips: Temporal clips K.
        crops: 1, or 3 (left, right, middle).
        fuse: ``'score'`` averages logits, ``'prob'`` probabilities.

    Returns:
        For 1 crop (the middle one) and all, the accuracy by the number of clips.

    Raises:
        ValueError: If the views are not ``clips`` x ``crops``, or ``fuse`` is neither.
    """
    if crops not in (1, 3) or scores.ndim != 3 or scores.shape[1] != clips * crops:
        raise ValueError(
            f"expected (videos, {clips} clips x {crops} crops (1 or 3), classes), got "
            f"{scores.shape}"
        )
    if fuse not in ("score", "prob"):
        raise ValueError(f"fuse must be score or prob, got {fuse!r}")
    if fuse == "prob":
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores = scores / scores.sum(axis=-1, keepdims=True)
    views = scores.reshape(len(scores), crops, clips, -1)
    kept: dict[int, Sequence[int]] = {1: [MIDDLE]} if crops == 3 else {}
    kept[crops] = range(crops)
    return {
        n: {
            len(places): float(
                np.mean(views[:, list(c)][:, :, places].mean(axis=(1, 2)).argmax(-1) == labels)
            )
            for places in _shared_clips(clips)
        }
        for n, c in kept.items()
    }


def _shared_clips(clips: int) -> list[list[int]]:
    """Places of those clips that make up a test with fewer, the fewest first."""
    last = clips - 1
    middle = [[last // 2]] if clips % 2 else []
    steps = [step for step in range(last, 0, -1) if last % step == 0]
    return middle + [list(range(0, clips, step)) for step in steps]
