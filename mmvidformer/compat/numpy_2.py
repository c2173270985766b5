"""The ``ColorJitter`` of MMAction2 1.2 computes with integers that do not fit.

Symptom: with NumPy 2 ``OverflowError: Python integer -23 out of bounds for uint8`` whenever the
random hue offset is negative; NumPy 1 computes modulo 256 before modulo 180, which is no rotation.
"""

from types import ModuleType

import numpy as np

from mmvidformer.compat.imports import after_import


def adjust_hue(img: np.ndarray, factor: float) -> np.ndarray:
    """Rotate the hue of an RGB image (H, W, 3) as MMAction2 intends: by int(255 factor) of 180."""
    import cv2

    hsv = cv2.cvtColor(np.clip(img, 0, 255).astype(np.uint8), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0].astype(np.int16) + int(factor * 255)) % 180
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB).astype(np.float32)


def _change(processing: ModuleType) -> None:
    processing.ColorJitter.adjust_hue = staticmethod(adjust_hue)


def repair() -> None:
    """Change the transform once it is imported."""
    after_import("mmaction.datasets.transforms.processing", _change)
