"""Bounds of answers on generated videos, from the annotations of the test videos.

Each function returns the best that a model can reach which sees single frames, and the best of all.
"""

from collections import Counter

import numpy as np
from mmaction.evaluation import mean_average_precision

from lab.synthetic import PRESETS
from lab.synthetic.answers import ScriptsSpec
from lab.synthetic.spec import Clip


def labels_bound() -> tuple[float, float]:
    """Return mAP of the best ranking by the number of objects, and 1."""
    spec = PRESETS["labels"]
    drawn = [spec.directions(clip)[0] for clip in spec.clips("test")]
    classes = range(len(spec.class_names))
    truth = [np.isin(classes, directions).astype(float) for directions in drawn]
    scores = [np.full(len(classes), float(len(directions))) for directions in drawn]
    return float(mean_average_precision(scores, truth)), 1.0


def number_bound() -> tuple[float, float]:
    """Return R^2 of a frame, which is independent of the speed, and 1."""
    return 0.0, 1.0


def frames_bound(step: int = 4) -> tuple[float, float]:
    """Return the share of the most frequent class, and the accuracy of true steps of frames."""
    spec = PRESETS["scripts"]
    counts: Counter = Counter()
    right = 0
    for clip in spec.clips("test"):
        labels = frame_labels(spec, clip, background=-1)
        counts.update(labels.tolist())
        frames = np.arange(len(labels))
        middles = np.minimum(frames // step * step + step // 2, len(labels) - 1)
        right += int((labels[middles] == labels).sum())
    return max(counts.values()) / counts.total(), right / counts.total()


def frame_labels(spec: ScriptsSpec, clip: Clip, background: int) -> np.ndarray:
    """Return the direction of each frame of a video, or the background."""
    motions, total, _ = spec.script(clip)
    labels = np.full(total, background)
    for direction, start, end in motions:
        labels[start:end] = direction
    return labels


def segments_bound() -> tuple[float, float]:
    """Return no bound, as the head compares the frames itself, and 1."""
    return float("nan"), 1.0


def boxes_bound() -> tuple[float, float]:
    """Return mAP if the directions of a clip are known, but not whose they are, and 1."""
    spec = PRESETS["boxes"]
    scores, truth = [], []
    for clip in spec.clips("test"):
        directions = spec.script(clip)[0]
        shown = np.isin(range(len(spec.class_names)), directions).astype(float)
        scores += [shown] * len(directions)
        truth += list(np.eye(len(spec.class_names))[directions])
    return float(mean_average_precision(scores, truth)), 1.0
