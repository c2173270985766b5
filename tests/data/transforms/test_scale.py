"""Random changes of the size of frames, and crops."""

import numpy as np
import pytest
from mmcv import imresize

from mmvidformer.registry import TRANSFORMS


def _scale_jitter(**kwargs) -> object:
    return TRANSFORMS.build({"type": "ScaleJitter", "short_side": 40, "crop_size": 32, **kwargs})


def _shown_regions(jitter, shape, draws: int) -> np.ndarray:
    """Regions of a frame that crops show: (draws, axis y or x, first or last pixel)."""
    grid = np.stack([*np.mgrid[: shape[0], : shape[1]], np.zeros(shape)], -1).astype(np.uint8)
    out = [jitter({"imgs": [grid], "img_shape": shape}) for _ in range(draws)]
    assert {(res["img_shape"], res["imgs"][0].shape) for res in out} == {((32, 32), (32, 32, 3))}
    corners = np.array([res["imgs"][0][(0, -1), (0, -1), :2] for res in out]).astype(int)
    return corners.swapaxes(1, 2)


def test_scale_jitter_draws_each_axis_independently() -> None:
    """A crop of 32 shows 32 / 1.33 to 32 / 0.9 pixels of a frame whose short side is right."""
    np.random.seed(0)
    regions = _shown_regions(_scale_jitter(ratio_range=(0.9, 1.33)), (40, 70), 400)
    heights, widths = (regions[..., 1] - regions[..., 0] + 1).T
    for sizes in (heights, widths):
        assert sizes.min() in (24, 25)
        assert sizes.max() in (35, 36)
    assert abs(np.corrcoef(heights, widths)[0, 1]) < 0.15


def test_scale_jitter_places_are_uniform() -> None:
    np.random.seed(0)
    regions = _shown_regions(_scale_jitter(ratio_range=(1.0, 1.0)), (40, 70), 4000)
    np.testing.assert_array_equal(regions[..., 1] - regions[..., 0], 31)
    for first, places in zip(regions[..., 0].T, (9, 39), strict=True):
        counts = np.bincount(first, minlength=places)
        assert len(counts) == places
        expected = 4000 / places
        # Chi-squared, whose standard deviation is about sqrt(2 * places).
        assert ((counts - expected) ** 2 / expected).sum() < places + 4 * (2 * places) ** 0.5


@pytest.mark.parametrize("shape", [(256, 454), (360, 240)])
def test_scale_jitter_equals_resizing_then_cropping(shape, monkeypatch) -> None:
    """Up to the rounding of the region to whole pixels, which shifts the content by at most 1."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (shape[0] // 32, shape[1] // 32, 3), dtype=np.uint8)
    image = imresize(coarse, shape[::-1], interpolation="bicubic")
    jitter = _scale_jitter(short_side=256, crop_size=224)
    errors, elsewhere = [], []
    for _ in range(20):
        factors = rng.uniform(0.9, 1.33, 2)
        places = rng.uniform(0, 1, 2)
        monkeypatch.setattr(np.random, "uniform", lambda *_, size, f=factors: f)
        monkeypatch.setattr(
            np.random, "randint", lambda low, high, p=places: (p * np.array(high)).astype(int)
        )
        got = jitter({"imgs": [image], "img_shape": shape})["imgs"][0].astype(float)
        height, width = (int(f * 256 / min(shape) * n) for f, n in zip(factors, shape, strict=True))
        whole = imresize(image, (width, height)).astype(float)
        rows, columns = (
            int(p * (n - 224 + 1)) for p, n in zip(places, (height, width), strict=True)
        )
        expected = whole[rows : rows + 224, columns : columns + 224]
        errors.append(np.abs(got - expected).mean())
        elsewhere.append(np.abs(got - expected[::-1]).mean())
    assert max(errors) < 3  # of 255; a pixel differs from its neighbors by 2.6
    assert min(elsewhere) > 40


@pytest.mark.parametrize("shape", [(40, 20), (20, 40)])
def test_scale_jitter_stretches_a_frame_smaller_than_the_crop(shape) -> None:
    jitter = _scale_jitter(short_side=20, ratio_range=(1.0, 1.0))
    regions = _shown_regions(jitter, shape, 20)
    short = shape.index(20)
    np.testing.assert_array_equal(regions[:, short], [[0, 19]] * 20)
    np.testing.assert_array_equal(regions[:, 1 - short, 1] - regions[:, 1 - short, 0], 31)


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


@pytest.mark.parametrize(
    "shape, places",
    [
        ((16, 31), [(2, 0), (2, 19), (2, 10)]),
        ((31, 17), [(0, 3), (19, 3), (10, 3)]),
        ((16, 16), [(2, 0), (2, 4), (2, 2)]),
        ((12, 20), [(0, 0), (0, 8), (0, 4)]),
    ],
)
def test_three_crops_lie_along_the_longer_side(shape, places) -> None:
    """As PySlowFast and scenic cut them; of odd margins the larger half comes first."""
    image = np.stack([*np.mgrid[: shape[0], : shape[1]], np.zeros(shape)], -1).astype(np.uint8)
    crop = TRANSFORMS.build({"type": "mmvidformer.ThreeCrop", "crop_size": 12})
    results = crop({"imgs": [image, image], "img_shape": shape})
    assert results["img_shape"] == (12, 12)
    assert {crop.shape for crop in results["imgs"]} == {(12, 12, 3)}
    assert [tuple(crop[0, 0, :2]) for crop in results["imgs"][::2]] == places


def test_three_crops_need_large_frames() -> None:
    crop = TRANSFORMS.build({"type": "mmvidformer.ThreeCrop", "crop_size": 12})
    with pytest.raises(ValueError, match="frames of 16 x 10 are smaller than the crop, 12"):
        crop({"imgs": [np.zeros((10, 16, 3), np.uint8)], "img_shape": (10, 16)})
