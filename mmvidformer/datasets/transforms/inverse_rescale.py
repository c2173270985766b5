"""Random scale, uniform in its inverse."""

import numpy as np
from mmaction.datasets.transforms import RandomRescale, Resize

from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class InverseRescale(RandomRescale):
    """``RandomRescale`` whose short side is ``1 / U(1 / high, 1 / low)``, which favours small ones.

    TimeSformer's official training on Something-Something V2 (PySlowFast's
    ``inverse_uniform_sampling``). Keys and arguments are those of ``RandomRescale``.

    Args:
        scale_range: Least and greatest short side in pixels.
        interpolation: ``'bilinear'`` or ``'nearest'``.
    """

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']`` to a random short side."""
        low, high = self.scale_range
        short = round(1 / np.random.uniform(1 / high, 1 / low))
        resize = Resize((-1, short), keep_ratio=True, interpolation=self.interpolation)
        return {**resize(results), "short_edge": short}
