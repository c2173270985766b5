"""How much there is to see in the frames of a sample."""

import cv2
import numpy as np

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.base import Transform

SIDE = 16  # pixels of the frames that are measured; noise of single pixels is gone by then


@TRANSFORMS.add
class MeasureStructure(Transform):
    """Measure the structure of frames, without which no motion could be seen.

    It is the standard deviation of brightness, in gray levels, at 16 x 16 pixels, after subtraction
    of its slope over the frame, such as that of a wall in the light of a lamp. Fog, darkness and
    plain walls have almost none. Added key: ``structure``, the median over some of the frames.
    """

    def transform(self, results: dict) -> dict:
        """Set ``results['structure']``; ``imgs`` are RGB frames (H, W, 3)."""
        images = results["imgs"]
        chosen = images[:: max(len(images) // 8, 1)]
        results["structure"] = float(np.median([structure_of(image) for image in chosen]))
        return results


def structure_of(image: np.ndarray) -> float:
    """Return the standard deviation of an RGB image (H, W, 3) beside its slope."""
    small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    gray = small.astype(np.float32).mean(axis=2).ravel()
    return float(np.std(gray - _SLOPES @ (_SLOPES.T @ gray)))


def _slopes() -> np.ndarray:
    """Return orthonormal columns (SIDE * SIDE, 3): a constant, and slopes to the right and down."""
    place = np.linspace(-1, 1, SIDE, dtype=np.float32)
    columns = [np.ones((SIDE, SIDE)), np.tile(place, (SIDE, 1)), np.tile(place[:, None], SIDE)]
    stack = np.stack([column.ravel() for column in columns], axis=1)
    return (stack / np.linalg.norm(stack, axis=0)).astype(np.float32)


_SLOPES = _slopes()
