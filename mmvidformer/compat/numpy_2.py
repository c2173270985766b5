"""MMAction2 1.2's ``ColorJitter`` overflows with NumPy 2.

Symptom: ``OverflowError: Python integer -23 out of bounds for uint8`` in about every third clip,
whenever the drawn hue offset is negative; NumPy 1 wrapped it silently.
"""

from importlib.util import find_spec
from types import ModuleType

import numpy as np

from mmvidformer.compat.finders import after_import


def adjust_hue(img: np.ndarray, factor: float) -> np.ndarray:
    """Rotate the hue of an RGB image as MMAction2 means to: H + int(255 factor), modulo 180.

    Args:
        img: Image (H, W, 3) with values in 0 to 255.
        factor: Rotation, in [-0.5, 0.5].

    Returns:
        Image (H, W, 3) as float32.
    """
    import cv2

    hsv = cv2.cvtColor(np.clip(img, 0, 255).astype(np.uint8), cv2.COLOR_RGB2HSV)
    # NumPy 1 added the offset modulo 256 before the modulo of 180; a rotation needs no such wrap.
    hue = (hsv[..., 0].astype(np.int16) + int(factor * 255)) % 180
    hsv[..., 0] = hue.astype(np.uint8)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB).astype(np.float32)


def _change(processing: ModuleType) -> None:
    processing.ColorJitter.adjust_hue = staticmethod(adjust_hue)


def needed() -> bool:
    """Whether MMAction2 meets NumPy 2."""
    return find_spec("mmaction") is not None and int(np.__version__.split(".")[0]) >= 2


def repair() -> None:
    """Replace the hue step once the transform is imported."""
    after_import("mmaction.datasets.transforms.processing", _change)
