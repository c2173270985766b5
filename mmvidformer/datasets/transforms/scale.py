"""Random changes of the size of frames, in dataloader workers."""

from dataclasses import dataclass

import mmcv
import numpy as np
from mmaction.datasets.transforms import RandomRescale, Resize
from mmcv.transforms import BaseTransform

from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
@dataclass
class ScaleJitter(BaseTransform):
    """Resize frames to a short side, and stretch height and width by independent random factors.

    ViViT's scale jitter (supplementary, Table 7: U[0.9, 1.33]). As in its official code, the aspect
    ratio changes; MMAction2's ``RandomRescale`` keeps it. Frames are interpolated once.

    Required and changed keys: ``imgs``, ``img_shape``.

    Args:
        short_side: Short side in pixels that a factor of 1 gives.
        ratio_range: Smallest and largest factor.
    """

    short_side: int
    ratio_range: tuple[float, float] = (0.9, 1.33)

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']``; sizes are rounded down to whole pixels."""
        shape = results["img_shape"]
        factors = np.random.uniform(*self.ratio_range, size=2) * self.short_side / min(shape)
        height, width = (int(f * n) for f, n in zip(factors, shape, strict=True))
        results["imgs"] = [mmcv.imresize(img, (width, height)) for img in results["imgs"]]
        results["img_shape"] = (height, width)
        return results


@TRANSFORMS.register_module()
class InverseRescale(RandomRescale):
    """Resize to a random short side that is uniform in its inverse, which favors small sizes.

    The short side is ``1 / U(1 / high, 1 / low)``, as in TimeSformer's official training on
    Something-Something V2 (PySlowFast's ``inverse_uniform_sampling``). Keys and arguments are those
    of MMAction2's ``RandomRescale``.

    Args:
        scale_range: Smallest and largest short side in pixels.
        interpolation: ``'bilinear'`` or ``'nearest'``.
    """

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']``."""
        low, high = self.scale_range
        short = round(1 / np.random.uniform(1 / high, 1 / low))
        resize = Resize((-1, short), keep_ratio=True, interpolation=self.interpolation)
        return {**resize(results), "short_edge": short}
