"""Random stretching of a clip's height and width."""

import mmcv
import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class ScaleJitter(BaseTransform):
    """Stretch height and width by independent random factors, the same for all frames.

    ViViT's scale jitter (supplementary, Table 7: U[0.9, 1.33], probability 1) as its official code
    does it, which changes the aspect ratio too; MMAction2's ``RandomRescale`` keeps it. Comes after
    ``Resize`` to the short side and before ``RandomCrop``.

    Required keys: ``imgs``, ``img_shape``. Changed: both.

    Args:
        ratio_range: Least and greatest factor.
        prob: Chance that a clip is stretched.

    Raises:
        ValueError: If the range is empty or not positive, or ``prob`` is no probability.
    """

    def __init__(self, ratio_range: tuple[float, float] = (0.9, 1.33), prob: float = 1.0) -> None:
        low, high = ratio_range
        if not 0 < low <= high:
            raise ValueError(f"ratio_range must be 0 < low <= high, got {ratio_range}")
        if not 0 <= prob <= 1:
            raise ValueError(f"prob must be in 0 to 1, got {prob}")
        self.ratio_range = (low, high)
        self.prob = prob

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']``; sizes are cut to whole pixels."""
        if np.random.rand() >= self.prob:
            return results
        factors = np.random.uniform(*self.ratio_range, size=2)
        height, width = (int(f * n) for f, n in zip(factors, results["img_shape"], strict=True))
        results["imgs"] = [mmcv.imresize(img, (width, height)) for img in results["imgs"]]
        results["img_shape"] = (height, width)
        return results

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ratio_range={self.ratio_range}, prob={self.prob})"
