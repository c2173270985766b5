"""MMAction2 1.2 does not work with NumPy 2.

Symptoms: ``AttributeError: `np.Inf` was removed`` in ``mmaction.utils.frame_extract`` and
``PoseCompact``; likewise for ``np.NAN`` in the AVA metric and, from NumPy 2.4 on, ``np.in1d`` in
``RetrievalRecall`` and ``np.trapz`` in ``average_recall_at_avg_proposals``. ``ColorJitter`` raises
``OverflowError: Python integer -23 out of bounds for uint8`` whenever the random hue offset is
negative. The repair gives the modules concerned a view of NumPy that has the names, and
``ColorJitter`` a hue step without overflow; NumPy itself is not changed.
"""

from importlib import import_module
from types import ModuleType

import cv2
import numpy as np

# Removed name: its successor.
NAMES = {"Inf": "inf", "NAN": "nan", "in1d": "isin", "trapz": "trapezoid"}
MODULES = (
    "mmaction.datasets.transforms.pose_transforms",
    "mmaction.evaluation.functional.accuracy",
    "mmaction.evaluation.functional.ava_evaluation.metrics",
    "mmaction.evaluation.metrics.multimodal_metric",
    "mmaction.utils.misc",
)


class _NumPy(ModuleType):
    def __getattr__(self, name: str) -> object:
        return getattr(np, NAMES.get(name, name))


def adjust_hue(img: np.ndarray, factor: float) -> np.ndarray:
    """Rotate the hue of an RGB image as MMAction2 intends: H + int(255 factor), modulo 180."""
    hsv = cv2.cvtColor(np.clip(img, 0, 255).astype(np.uint8), cv2.COLOR_RGB2HSV)
    # NumPy 1 computed modulo 256 before modulo 180, which is no rotation.
    hsv[..., 0] = (hsv[..., 0].astype(np.int16) + int(factor * 255)) % 180
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB).astype(np.float32)


def repair() -> None:
    """Change the modules, and ``ColorJitter``."""
    if hasattr(np, "Inf"):
        return
    from mmaction.datasets.transforms import ColorJitter

    for name in MODULES:
        import_module(name).np = _NumPy("numpy")
    ColorJitter.adjust_hue = staticmethod(adjust_hue)
