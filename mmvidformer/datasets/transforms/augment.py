"""Random changes of size and color that are equal in all frames of a clip."""

import random

import mmcv
import numpy as np
import torch
from mmaction.datasets.transforms import RandomRescale, Resize
from PIL import Image
from timm.data.auto_augment import AutoAugment, auto_augment_policy, posterize
from torchvision.transforms import v2

from mmvidformer.datasets.transforms.base import ClipTransform
from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class ScaleJitter(ClipTransform):
    """Stretch height and width by independent random factors.

    ViViT's scale jitter (supplementary, Table 7: U[0.9, 1.33]). As in its official code, the aspect
    ratio changes; MMAction2's ``RandomRescale`` keeps it. Goes between ``Resize`` to the short side
    and ``RandomCrop``.

    Required and changed keys: ``imgs``, ``img_shape``.

    Args:
        ratio_range: Smallest and largest factor.
    """

    def __init__(self, ratio_range: tuple[float, float] = (0.9, 1.33)) -> None:
        self.ratio_range = ratio_range

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']``; sizes are rounded down to whole pixels."""
        factors = np.random.uniform(*self.ratio_range, size=2)
        height, width = (int(f * n) for f, n in zip(factors, results["img_shape"], strict=True))
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


@TRANSFORMS.register_module()
class ClipColorJitter(ClipTransform):
    """Change brightness, contrast, saturation and hue, once per clip.

    Applies torchvision's ``v2.ColorJitter`` to channel-first frames. MMAction2's
    ``TorchVisionWrapper(op='ColorJitter')`` applies the first version to channel-last frames: from
    the same draws it gives the same frames to within one of 255 levels, in several times the time.

    Required and changed key: ``imgs``, RGB frames (H, W, 3) of equal size, uint8.

    Args:
        **kwargs: Arguments of ``v2.ColorJitter``: ``brightness``, ``contrast``, ``saturation`` and
            ``hue``, largest changes or ranges.
    """

    def __init__(self, **kwargs: float | tuple[float, float]) -> None:
        self.jitter = v2.ColorJitter(**kwargs)

    def transform(self, results: dict) -> dict:
        """Change ``results['imgs']``."""
        frames = np.ascontiguousarray(np.stack(results["imgs"]).transpose(0, 3, 1, 2))
        changed = self.jitter(torch.from_numpy(frames)).numpy()
        results["imgs"] = list(np.ascontiguousarray(changed.transpose(0, 2, 3, 1)))
        return results


@TRANSFORMS.register_module()
class VideoAutoAugment(ClipTransform):
    """Apply an AutoAugment policy, drawn once per clip.

    AutoAugment (Cubuk et al. 2019) with timm's policies and operations. ``'v0'`` is the policy of
    the official code of feature fixation on Kinetics and Something-Something. Operations, strengths
    and directions are equal in all frames; equalization and contrast use each frame's statistics.
    Rotation, shear and translation fill with gray (128).

    Goes after decoding. Required and changed key: ``imgs``, RGB frames (H, W, 3), uint8.

    Args:
        policy: A policy of timm, such as ``'v0'`` (of the EfficientNet code for TPUs) or
            ``'original'`` (of the paper).
    """

    def __init__(self, policy: str = "v0") -> None:
        self.policy = policy
        rows = auto_augment_policy(policy)
        for operation in (operation for row in rows for operation in row):
            if operation.name.startswith("Posterize"):
                operation.aug_fn = _posterize
        self._augment = AutoAugment(rows)

    def transform(self, results: dict) -> dict:
        """Change ``results['imgs']``."""
        state = random.getstate()  # timm draws from this generator only
        frames = []
        for frame in results["imgs"]:
            random.setstate(state)
            frames.append(np.array(self._augment(Image.fromarray(frame))))
        results["imgs"] = frames
        return results


def _posterize(image: Image.Image, bits: int, **_: object) -> Image.Image:
    # A row of 'v0' keeps no bits. Pillow 13 refuses to make that black image.
    return posterize(image, bits) if bits else Image.new(image.mode, image.size)
