"""Frames of any aspect ratio for models whose tokens are boxes of pixels."""

from dataclasses import dataclass

from mmcv.transforms import BaseTransform

from mmvidformer.errors import UserError
from mmvidformer.registry import TRANSFORMS
from mmvidformer.video.errors import BadVideo, path_of


@TRANSFORMS.register_module()
@dataclass
class CropToMultiple(BaseTransform):
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
        height, width = (min(side - side % self.multiple, self.most) for side in sides)
        if min(height, width) == 0:
            reason = f"its frames must have at least {self.multiple} pixels a side, got {sides}"
            raise BadVideo(path_of(results), reason)
        top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
        images = [image[top : top + height, left : left + width] for image in results["imgs"]]
        return {**results, "imgs": images, "img_shape": (height, width)}
