"""AutoAugment that treats all frames of a clip alike."""

import random

import numpy as np
from mmcv.transforms import BaseTransform
from PIL import Image
from timm.data.auto_augment import AutoAugment, auto_augment_policy, posterize

from mmvidformer.lookup import look_up
from mmvidformer.registry import TRANSFORMS

POLICIES = ("v0", "v0r", "original", "originalr")


def _posterize(image: Image.Image, bits: int, **_: object) -> Image.Image:
    # 'v0' has a row that keeps no bit at all: a black image, which the Pillow of today (13) refuses
    # to make.
    return posterize(image, bits) if bits else Image.new(image.mode, image.size)


@TRANSFORMS.register_module()
class VideoAutoAugment(BaseTransform):
    """Apply one draw of an AutoAugment policy to all frames of a clip.

    AutoAugment (Cubuk et al. 2019) with timm's policies and operations. ``'v0'`` is what the
    official code of feature fixation uses on Kinetics and Something-Something. Each frame is
    changed with the same random numbers, so that the operations, their strengths and their
    directions are those of the clip; equalisation and contrast use the statistics of the frame.
    What a rotation, shear or translation brings in is grey (128).

    Comes after decoding, as there. Required keys: ``imgs``, a list of (H, W, 3) uint8 RGB frames.
    Changed: ``imgs``.

    Args:
        policy: ``'v0'`` (the one of the EfficientNet code for TPUs), ``'original'`` (the paper's),
            or either with ``'r'``, where posterising takes away more bits as it gets stronger.

    Raises:
        KeyError: If the policy is unknown.
    """

    def __init__(self, policy: str = "v0") -> None:
        self.policy = look_up(POLICIES, policy, "AutoAugment policy")
        rows = auto_augment_policy(policy)
        for operation in (operation for row in rows for operation in row):
            if operation.name.startswith("Posterize"):
                operation.aug_fn = _posterize
        self.augment = AutoAugment(rows)

    def transform(self, results: dict) -> dict:
        """Change the frames of ``results['imgs']``."""
        state = random.getstate()  # timm draws from this generator alone
        frames = []
        for frame in results["imgs"]:
            random.setstate(state)
            frames.append(np.array(self.augment(Image.fromarray(frame))))
        results["imgs"] = frames
        return results

    def __repr__(self) -> str:
        return f"{type(self).__name__}(policy={self.policy!r})"
