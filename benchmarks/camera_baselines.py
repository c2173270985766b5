"""Camera motion by OpenCV: what one would use instead of a trained model."""

from collections.abc import Callable
from itertools import pairwise

import cv2
import numpy as np

from lab.synthetic.camera.paths import FPS, class_of

PLAIN = 0.01  # smallest quality of the points, as a share of the best corner's
Points = tuple[np.ndarray, np.ndarray]


def dense_flow(first: np.ndarray, second: np.ndarray) -> Points:
    """Return points of a grid in gray frames (H, W), and where Farneback's flow moves them.

    Plain areas are left out, because the flow does not show there how the camera moves.
    """
    flow = cv2.calcOpticalFlowFarneback(first, second, None, 0.5, 4, 15, 3, 5, 1.2, 0)
    step = max(1, min(first.shape) // 32)
    height, width = first.shape
    rows, columns = np.mgrid[step // 2 : height : step, step // 2 : width : step]
    corners = cv2.cornerMinEigenVal(first, 7)
    chosen = corners[rows, columns] > PLAIN * corners.max()
    points = np.stack([columns, rows], axis=-1)[chosen].astype(np.float32)
    return points, points + flow[rows, columns][chosen]


def sparse_features(first: np.ndarray, second: np.ndarray) -> Points:
    """Return corners of a gray frame (H, W), and where Lucas and Kanade's flow moves them."""
    points = cv2.goodFeaturesToTrack(first, 200, PLAIN, max(3, min(first.shape) // 32))
    if points is None:
        return np.zeros((0, 2)), np.zeros((0, 2))
    moved, tracked, _ = cv2.calcOpticalFlowPyrLK(first, second, points, None)
    return points[tracked == 1], moved[tracked == 1]


def fit_steps(frames: np.ndarray, track: Callable[..., Points]) -> np.ndarray:
    """Fit similarities from each frame to the next (RANSAC): the motion (T - 1, 4) of the camera.

    Steps that cannot be fitted count as still.

    Args:
        frames: RGB frames (T, H, W, 3), uint8.
        track: ``dense_flow`` or ``sparse_features``.
    """
    height, width = frames.shape[1:3]
    size, middle = min(height, width), np.array([width - 1, height - 1]) / 2
    gray = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames]
    steps = np.zeros((len(frames) - 1, 4))
    for step, pair in zip(steps, pairwise(gray), strict=True):
        old, new = (points - middle for points in track(*pair))
        if len(old) < 3:
            continue
        limit = max(0.5, size / 128)
        affine, _ = cv2.estimateAffinePartial2D(new, old, ransacReprojThreshold=limit)
        if affine is None:
            continue
        scale = complex(affine[0, 0], affine[1, 0])  # times e^(i turn)
        if scale:
            step[:] = *affine[:, 2] / size, -np.log(abs(scale)), np.angle(scale)
    return steps


def fit_velocity(frames: np.ndarray, track: Callable[..., Points]) -> np.ndarray:
    """Return the mean velocity (4,) of the camera per second; see ``fit_steps``."""
    return fit_steps(frames, track).mean(axis=0) * FPS


def by_flow(frames: np.ndarray) -> int:
    """Classify frames (T, H, W, 3) by dense flow."""
    return class_of(fit_velocity(frames, dense_flow))


def by_features(frames: np.ndarray) -> int:
    """Classify frames (T, H, W, 3) by sparse features."""
    return class_of(fit_velocity(frames, sparse_features))
