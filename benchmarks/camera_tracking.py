"""Labels for how a real camera moves: points are tracked at full resolution.

The rules below were fixed before any model saw a window; only rotation tags were read later. They
share no code with the model or with the baselines.

A window begins every half second. It has 8 moments, 1/8 s apart, and 7 steps between them. At each
moment up to 300 corners are found (Shi-Tomasi). Lucas and Kanade's pyramids follow them through
every frame of the step. A point is dropped unless it comes back to within ``RETURN`` pixels when it
is followed backwards. A robust fit (least median of squares) gives the similarity of the step.

Speeds are in short sides of the frame per second, at the middle of an edge of the square in the
middle of the frame: pan and tilt count fully, zoom (log) and roll (radians) by a half. These are
the units of the classes of ``camera_motion``.

A window has a label if these hold; otherwise it has none:

- In each step at least ``POINTS`` points and ``SHARE`` of those followed agree with the fit. They
  are within ``NEAR`` of it, or within ``PARALLAX`` of the median motion of the points: scenes have
  depth, and lenses a perspective. At least 5 of them lie in each of three quarters of the frame.
- Moving: the mean speed of the main motion is at least ``MOVING``; that of each other motion is at
  most ``OTHERS`` of it; and the main motion has the same direction in every step.
- Static: all mean speeds are at most ``STILL``, and at most ``SHAKE`` in every step.

``MOVING`` and ``STILL`` leave a gap around the threshold of the classes (0.05).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np

from lab.synthetic.camera.paths import CLASSES, EDGE, measure_shake
from mmvidformer.errors import UserError

MOMENTS, RATE = 8, 8  # of a window, and per second
HOP = 4  # moments from one window to the next
RETURN = 0.5  # pixels
POINTS, SHARE = 20, 0.7
NEAR = 0.025 / RATE  # of the short side: half of the threshold of the classes
PARALLAX = 0.3
MOVING, OTHERS = 0.075, 0.5
STILL, SHAKE = 0.025, 0.05


@dataclass
class Window:
    """A second of a video.

    Attributes:
        start: Its begin in seconds.
        frames: RGB frames (8, H, W, 3) at its moments, uint8.
        speeds: Mean signed speeds (4,) of pan, tilt, zoom and roll; NaN if points disagree.
        shake: How far the camera is from its smooth path (``measure_shake``); NaN likewise.
        label: Its class, or ``''``.
        reason: Why it has no label, or ``''``.
    """

    start: float
    frames: np.ndarray
    speeds: np.ndarray
    shake: float
    label: str
    reason: str


def label_windows(path: Path) -> Iterator[Window]:
    """Label seconds of a video, one every half second.

    Raises:
        av.FFmpegError: If it cannot be read.
        UserError: If it has less than 8 frames per second.
    """
    frames: list[np.ndarray] = []
    motions: list[np.ndarray | None] = []
    for number, (frame, motion) in enumerate(read_moments(path)):
        frames.append(frame)
        motions.append(motion)
        if len(frames) < MOMENTS:
            continue
        start = (number + 1 - MOMENTS) / RATE
        steps = [motion for motion in motions[1:] if motion is not None]
        clip = np.stack(frames)
        if len(steps) < MOMENTS - 1:
            yield Window(start, clip, np.full(4, np.nan), np.nan, "", "points disagree")
        else:
            speeds = np.array(steps) * EDGE
            shake = measure_shake(np.array(steps) / RATE)
            yield Window(start, clip, speeds.mean(axis=0), shake, *name_motion(speeds))
        del frames[:HOP], motions[:HOP]


def name_motion(speeds: np.ndarray) -> tuple[str, str]:
    """Name the motion of a window by the signed speeds (7, 4) of its steps.

    Returns:
        Its class and ``''``, or ``''`` and why it has none.
    """
    mean = speeds.mean(axis=0)
    main = int(np.abs(mean).argmax())
    fastest, others = abs(mean[main]), np.abs(np.delete(mean, main))
    if fastest <= STILL:
        return ("static", "") if np.abs(speeds).max() <= SHAKE else ("", "shakes")
    if fastest < MOVING:
        return "", "hardly moves"
    if others.max() > OTHERS * fastest:
        return "", "mixed motions"
    if (speeds[:, main] * mean[main] <= 0).any():
        return "", "changes direction"
    return CLASSES[1 + 2 * main + int(mean[main] > 0)], ""


def fit_step(gray: list[np.ndarray]) -> np.ndarray | None:
    """Fit the motion (4,) of the camera from the first to the last of successive gray frames.

    Pan to the right and tilt down are in short sides of the frame, zoom is the logarithm of the
    magnification, roll is in radians clockwise. None if too few points agree.
    """
    height, width = gray[0].shape
    short = min(height, width)
    first, last = track(gray)
    if len(first) < POINTS:
        return None
    middle = np.array([width - 1, height - 1]) / 2
    old, new = (first - middle) / short, (last - middle) / short
    affine, _ = cv2.estimateAffinePartial2D(old, new, method=cv2.LMEDS)
    if affine is None:
        return None
    fitted = old @ affine[:, :2].T + affine[:, 2]
    motion = np.median(np.linalg.norm(fitted - old, axis=1))
    agree = np.linalg.norm(fitted - new, axis=1) < max(NEAR, PARALLAX * motion)
    quarters = np.bincount(2 * (old[agree, 0] > 0) + (old[agree, 1] > 0), minlength=4)
    if agree.sum() < POINTS or agree.mean() < SHARE or (quarters >= 5).sum() < 3:
        return None
    factor = complex(affine[0, 0], affine[1, 0])
    # The image moves against the camera, but grows when the camera zooms in.
    return np.array([*-affine[:, 2], np.log(abs(factor)), -np.angle(factor)])


def track(gray: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Follow corners through frames: where they are in the first and in the last one, (N, 2)."""
    distance = max(5, min(gray[0].shape) // 60)
    first = cv2.goodFeaturesToTrack(gray[0], 300, 0.01, distance)
    if first is None:
        return np.zeros((0, 2)), np.zeros((0, 2))
    last = first
    options = {"winSize": (15, 15), "maxLevel": 4}
    for old, new in pairwise(gray):
        moved, tracked, _ = cv2.calcOpticalFlowPyrLK(old, new, last, None, **options)
        back, tracked_back, _ = cv2.calcOpticalFlowPyrLK(new, old, moved, None, **options)
        near = np.linalg.norm(back - last, axis=2)[:, 0] < RETURN
        kept = near & (tracked[:, 0] == 1) & (tracked_back[:, 0] == 1)
        first, last = first[kept], moved[kept]
        if not len(first):
            break
    return first[:, 0].astype(np.float64), last[:, 0].astype(np.float64)


def read_moments(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Read the frames of a video that are nearest to the moments, and how the camera got there.

    Yields:
        The RGB frame, and the motion (4,) per second since the last one (``fit_step``).
    """
    for image, since, rate in read_steps(path):
        motion = fit_step(since) if len(since) > 1 else None
        yield image, None if motion is None else motion * rate / (len(since) - 1)


def read_steps(path: Path) -> Iterator[tuple[np.ndarray, list[np.ndarray], float]]:
    """Read the frames of a video that are nearest to the moments, and those between them.

    Frames count as evenly spaced, as they do for the model; some containers have wrong times. They
    are turned as their container says.

    Yields:
        The RGB frame of a moment, the gray frames from the last moment to it (at the first moment
        only its own), and the frames per second of the video.
    """
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        rate = float(stream.average_rate or 0)
        if rate < RATE:
            raise UserError(f"{rate:.3g} frames per second, needs {RATE}")
        moment, since = 0, []
        for number, frame in enumerate(file.decode(stream)):
            image = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
            image = np.ascontiguousarray(image)
            since.append(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
            if number == round(moment / RATE * rate):
                yield image, since, rate
                moment, since = moment + 1, since[-1:]
