"""Random sizes of clips, in dataloader workers."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from dataclasses import dataclass

import mmcv
import numpy as np
from mmaction.datasets.transforms import RandomRescale, Resize

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.base import Transform


@TRANSFORMS.add
@dataclass
class ScaleJitter(Transform):
    """Crop frames at random after stretching height and width by independent random factors.

    ViViT's scale jitter (arXiv, Table 7: U[0.9, 1.33]) with its random crop, as in the
    official code. Required and changed keys: ``imgs``, ``img_shape``.

    Args:
        short_side: Short side in pixels that a factor of 1 gives.
        crop_size: Side of the square crop in pixels, to which shorter axes are stretched.
        ratio_range: Smallest and largest factor.
    """

    short_side: int
    crop_size: int
    ratio_range: tuple[float, float] = (0.9, 1.33)

    def transform(self, results: dict) -> dict:
        """Crop and resize ``results['imgs']``."""
        shape = results["img_shape"]
        factors = np.random.uniform(*self.ratio_range, size=2) * self.short_side / min(shape)
        height, width = np.minimum(np.rint(self.crop_size / factors).astype(int), shape)
        top, left = np.random.randint(0, (shape[0] - height + 1, shape[1] - width + 1))
        region, size = np.s_[top : top + height, left : left + width], (self.crop_size,) * 2
        results["imgs"] = [mmcv.imresize(img[region], size) for img in results["imgs"]]
        results["img_shape"] = size
        return results


@TRANSFORMS.add
class InverseRescale(RandomRescale):
    """MMAction2's ``RandomRescale`` to a short side of ``1 / U(1 / high, 1 / low)``.

    As in TimeSformer's official training on Something-Something V2 (PySlowFast's
    ``inverse_uniform_sampling``).
    """

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']``."""
        low, high = self.scale_range
        short = round(1 / np.random.uniform(1 / high, 1 / low))
        resize = Resize((-1, short), keep_ratio=True, interpolation=self.interpolation)
        return {**resize(results), "short_edge": short}
