"""Frames of any aspect ratio for models whose tokens are boxes of pixels."""

import math
from dataclasses import dataclass

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.base import Transform
from mmvidformer.errors import UserError
from mmvidformer.video.errors import path_of
from mmvidformer.video.facts import require_size


@TRANSFORMS.add
@dataclass
class CropToMultiple(Transform):
    """Crop the middle of frames, so that both sides are a multiple of a tubelet's.

    Goes after a ``Resize`` that keeps the aspect ratio. Position tables of the backbone are resized
    to the grid that results, and clips of one shape run together. Changed keys: ``imgs``,
    ``img_shape``.

    Args:
        multiple: Rows and columns of a tubelet.
        most: Longest side in pixels, a multiple too.

    Raises:
        UserError: If ``most`` is no multiple.
        BadVideo: If frames are smaller.
    """

    multiple: int = 8
    most: int = 160

    def __post_init__(self) -> None:
        if self.most % self.multiple:
            raise UserError(f"most must be a multiple of {self.multiple}, got {self.most}")

    def transform(self, results: dict) -> dict:
        """Crop ``results['imgs']``, frames (H, W, 3) of one size."""
        sides = results["imgs"][0].shape[:2]
        require_size(path_of(results), sides, self.multiple)
        height, width = (min(side - side % self.multiple, self.most) for side in sides)
        top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
        images = [image[top : top + height, left : left + width] for image in results["imgs"]]
        return {**results, "imgs": images, "img_shape": (height, width)}


@TRANSFORMS.add
@dataclass
class ThreeCrop(Transform):
    """Cut three crops: at both ends and in the middle of the longer side of frames, in this order.

    Of odd margins the middle gets the larger half first, as in PySlowFast, whose crops the official
    codes of ViViT, TimeSformer and feature fixation have. MMAction2's transform of this name rounds
    down, so that its last crop misses the last column of odd widths, and needs a short side as long
    as the crop. Frames may be longer here. Required and changed keys: ``imgs``, ``img_shape``.

    Args:
        crop_size: Side of the square crop in pixels.

    Raises:
        UserError: If frames are smaller than the crop.
    """

    crop_size: int

    def transform(self, results: dict) -> dict:
        """Crop ``results['imgs']``: the first crop of all frames, then the next."""
        size, (height, width) = self.crop_size, results["img_shape"]
        if min(height, width) < size:
            raise UserError(f"frames of {width} x {height} are smaller than the crop, {size}")
        top, left = math.ceil((height - size) / 2), math.ceil((width - size) / 2)
        if width >= height:
            corners = [(top, x) for x in (0, width - size, left)]
        else:
            corners = [(y, left) for y in (0, height - size, top)]
        imgs = results["imgs"]
        results["imgs"] = [img[y : y + size, x : x + size] for y, x in corners for img in imgs]
        results["img_shape"] = (size, size)
        return results
