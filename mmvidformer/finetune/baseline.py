"""What classifiers without a network reach in seconds: differences of small gray frames."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mmvidformer.video.video import Video

FRAMES, SIZE = 9, 24  # of a video; pixels of a side
PENALTY = 0.01  # inverse strength of the L2 penalty
MOST = 500  # videos of a list, so that it takes seconds
NAME = "frame differences with logistic regression"
NEIGHBOR = "frame differences with the nearest neighbor"

Rows = Sequence[tuple[Any, ...]]  # file and class of a video, and what else is known


def try_baselines(train: Rows, test: Rows) -> dict[str, dict[str, bool]]:
    """Train and test classifiers on differences of frames (``frame_differences``).

    They are logistic regression, ``NAME``, and the nearest neighbor by cosine, ``NEIGHBOR``.

    Of longer lists, ``MOST`` videos at equal distances are read.

    Args:
        train: Paths and classes of the videos to learn from.
        test: Those to classify.

    Returns:
        By classifier, whether each video that was tested was told right; unreadable ones were not.
        Nothing if fewer than two classes of training videos can be read, or there is no test.
    """
    inputs, labels, _ = _read(_thin(train))
    if len(set(labels)) < 2 or not test:
        return {}
    regression = make_pipeline(StandardScaler(), LogisticRegression(C=PENALTY, max_iter=500))
    neighbor = KNeighborsClassifier(1, metric="cosine")
    tested = _thin(test)
    test_inputs, test_labels, read = _read(tested)
    answers = {}
    for name, classifier in ((NAME, regression), (NEIGHBOR, neighbor)):
        answers[name] = {str(path): False for path, *_ in tested}
        if read:
            is_right = classifier.fit(inputs, labels).predict(test_inputs) == test_labels
            answers[name] |= zip(map(str, read), is_right.tolist(), strict=True)
    return answers


@lru_cache(maxsize=2 * MOST)  # folds read a video many times
def frame_differences(path: str | Path) -> np.ndarray:
    """Return absolute differences of 9 gray frames of a whole video, (8 x 24 x 24), from 0 to 1.

    Raises:
        OSError: If the file cannot be read.
        UserError: If it is no video that can be decoded.
    """
    video = Video.open(path)
    numbers = np.linspace(0, len(video) - 1, FRAMES).round().astype(int)
    grays = []
    for frame in video.get_batch(numbers):
        gray = Image.fromarray(frame).convert("L")
        grays.append(np.asarray(gray.resize((SIZE, SIZE), Image.Resampling.BILINEAR)))
    pixels = np.stack(grays).astype(np.float32) / 255
    return np.abs(np.diff(pixels, axis=0)).ravel()


def _thin(rows: Rows) -> Rows:
    """Take at most ``MOST`` rows, at equal distances."""
    if len(rows) <= MOST:
        return rows
    numbers = np.linspace(0, len(rows) - 1, MOST).round().astype(int)
    return [rows[number] for number in numbers]


def _read(rows: Rows) -> tuple[list[np.ndarray], list[int], list[Path]]:
    """Read the videos that can be read; return their features, classes and paths."""
    inputs, labels, read = [], [], []
    for path, label, *_ in rows:
        try:
            inputs.append(frame_differences(path))
        except (OSError, ValueError):  # the run itself names it
            continue
        labels.append(label)
        read.append(path)
    return inputs, labels, read
