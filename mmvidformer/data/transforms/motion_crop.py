"""A crop around what moves, for cameras that see small people anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from mmvidformer.data.transforms.base import Transform
from mmvidformer.layers.catalog import TRANSFORMS

HEIGHT = 96  # of the gray frames whose differences are measured
NOISE = 8  # difference of gray values that compression and light make


@TRANSFORMS.add
@dataclass
class CropToMotion(Transform):
    """Crop frames to a square around what moves in the clip, the same for all of them.

    It goes after decoding, before a ``Resize``. Changed keys: ``imgs``, ``img_shape``.

    Args:
        shares: Sides to try, as shares of the short side.
        covered: Share of all differences of successive frames that the square must have. The least
            side that has them is taken, at the place where it has most; else the last side.
    """

    shares: Sequence[float] = (0.4, 0.55, 0.75, 1.0)
    covered: float = 0.5

    def transform(self, results: dict) -> dict:
        """Crop ``results['imgs']``, frames (H, W, 3) of one size."""
        top, left, side = self.find_square(results["imgs"])
        images = [image[top : top + side, left : left + side] for image in results["imgs"]]
        return {**results, "imgs": images, "img_shape": (side, side)}

    def find_square(self, images: Sequence[np.ndarray]) -> tuple[int, int, int]:
        """Return top, left and side of the square, in pixels."""
        height, width = images[0].shape[:2]
        scale = HEIGHT / height
        motion = measure_motion(images, max(round(width * scale), 1))
        sums = np.pad(motion, ((1, 0), (1, 0))).cumsum(0).cumsum(1)  # of all squares from a corner
        for share in self.shares:
            side = max(int(share * min(height, width)), 1)
            small = min(max(round(side * scale), 1), *motion.shape)
            inside = sums[small:, small:] - sums[:-small, small:]
            inside = inside - sums[small:, :-small] + sums[:-small, :-small]
            if inside.max() >= self.covered * motion.sum():
                break
        row, column = np.unravel_index(inside.argmax(), inside.shape)
        top, left = min(round(row / scale), height - side), min(round(column / scale), width - side)
        return top, left, side


def measure_motion(images: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Return the mean differences beyond noise of successive frames, (HEIGHT, width)."""
    grays = []
    for image in images:
        gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        small = cv2.resize(gray, (width, HEIGHT), interpolation=cv2.INTER_AREA)
        grays.append(small.astype(np.float32))
    if len(grays) < 2:
        return np.ones((HEIGHT, width), np.float32)
    differences = np.abs(np.diff(np.stack(grays), axis=0))
    # A still clip is as even as noise.
    return np.maximum(differences - NOISE, 0).mean(0) + 1e-6
