"""Frames of any aspect ratio."""

import numpy as np
import pytest

from mmvidformer.data.transforms.whole_frames import CropToMultiple


@pytest.mark.parametrize(
    ("size", "cropped"),
    [((64, 113), (64, 112)), ((113, 64), (112, 64)), ((64, 64), (64, 64)), ((64, 400), (64, 160))],
)
def test_the_middle_is_kept(size: tuple[int, int], cropped: tuple[int, int]) -> None:
    rows, columns = np.mgrid[: size[0], : size[1]]
    image = np.stack([rows, columns, rows], axis=-1).astype(np.int32)
    results = CropToMultiple(8, most=160).transform({"imgs": [image, image]})
    (first, _), (height, width) = results["imgs"], cropped
    assert first.shape[:2] == results["img_shape"] == cropped
    assert first[0, 0, 0] == (size[0] - height) // 2 and first[0, 0, 1] == (size[1] - width) // 2


def test_what_fits_no_tubelet_is_an_error() -> None:
    with pytest.raises(ValueError, match="most must be a multiple of 8, got 100"):
        CropToMultiple(8, most=100)
    with pytest.raises(ValueError, match="at least 8 pixels a side, got"):
        CropToMultiple(8).transform({"imgs": [np.zeros((4, 64, 3))]})
