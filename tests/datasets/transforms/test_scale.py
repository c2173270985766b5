"""Random changes of the size of frames."""

import numpy as np
import pytest
from mmcv import imresize

from mmvidformer.registry import TRANSFORMS


def test_scale_jitter_draws_each_axis_independently() -> None:
    jitter = TRANSFORMS.build(dict(type="ScaleJitter", short_side=20, ratio_range=(0.9, 1.33)))
    np.random.seed(0)
    shapes = []
    for _ in range(200):
        out = jitter({"imgs": [np.zeros((20, 30, 3), np.uint8)] * 2, "img_shape": (20, 30)})
        assert {img.shape for img in out["imgs"]} == {(*out["img_shape"], 3)}
        shapes.append(out["img_shape"])
    heights, widths = np.array(shapes).T
    assert (heights.min(), heights.max()) == (18, 26)
    assert (widths.min(), widths.max()) == (27, 39)
    assert abs(np.corrcoef(heights, widths)[0, 1]) < 0.2


@pytest.mark.parametrize("shape", [(20, 30), (60, 40)])
def test_scale_jitter_interpolates_once(shape) -> None:
    """From any size, to the one that resizing the short side first would give."""
    jitter = TRANSFORMS.build(dict(type="ScaleJitter", short_side=20, ratio_range=(1.2, 1.2)))
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    out = jitter({"imgs": [image], "img_shape": shape})
    expected = tuple(24 * side // min(shape) for side in shape)
    assert out["img_shape"] == expected
    np.testing.assert_array_equal(out["imgs"][0], imresize(image, expected[::-1]))


def test_inverse_rescale_is_uniform_in_the_inverse() -> None:
    np.random.seed(0)
    rescale = TRANSFORMS.build({"type": "InverseRescale", "scale_range": (20, 40)})
    image = np.zeros((60, 90, 3), np.uint8)
    shorts = []
    for _ in range(1500):
        results = {"imgs": [image], "img_shape": (60, 90), "modality": "RGB"}
        results = rescale(results)
        shorts.append(results["short_edge"])
        height, width = results["imgs"][0].shape[:2]
        assert height == shorts[-1]
        assert abs(width - 1.5 * height) <= 0.5
    assert min(shorts) == 20
    assert max(shorts) == 40
    inverse = 1 / np.array(shorts)
    counts, _ = np.histogram(inverse, bins=[1 / 40.5, 1 / 32, 1 / 26.667, 1 / 22.857, 1 / 19.5])
    # Quarters of 1/40 to 1/20, up to rounding to whole pixels.
    np.testing.assert_allclose(counts / 1500, 0.25, atol=0.05)
    assert np.mean(shorts) < 28.5  # 27.7 expected; 30 if short sides were uniform
