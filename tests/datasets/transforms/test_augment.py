"""Changes of size and color, equal in all frames of a clip."""

import random

import numpy as np
import pytest
import torch
from mmengine.registry import init_default_scope
from PIL import Image
from timm.data.auto_augment import auto_augment_transform

from mmvidformer.datasets.transforms import ClipColorJitter
from mmvidformer.registry import TRANSFORMS


def picture() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)


def augment(imgs: list[np.ndarray], policy: str = "v0") -> list[np.ndarray]:
    return TRANSFORMS.build({"type": "VideoAutoAugment", "policy": policy})({"imgs": imgs})["imgs"]


@pytest.mark.parametrize("policy", ["v0", "original"])
def test_auto_augment_equals_timm_s(policy: str) -> None:
    reference = auto_augment_transform(policy)
    changed = 0
    for seed in range(40):
        random.seed(seed)
        try:
            expected = np.array(reference(Image.fromarray(picture())))
        except ValueError:  # Pillow refuses to keep no bits
            continue
        random.seed(seed)
        found = augment([picture()], policy)[0]
        np.testing.assert_array_equal(found, expected)
        changed += (found != picture()).any()
    assert changed > 20


def test_posterizing_to_no_bits_gives_black() -> None:
    """A row of 'v0', which Pillow 13 refuses."""
    transform = TRANSFORMS.build({"type": "VideoAutoAugment"})
    row = next(row for row in transform._augment.policy if row[0].name == "Posterize"
               and row[0].magnitude == 2)  # fmt: skip
    transform._augment.policy = [row[:1]]
    row[0].prob = 1.0
    assert transform({"imgs": [picture()]})["imgs"][0].max() == 0


def test_auto_augment_is_equal_in_all_frames() -> None:
    random.seed(0)
    for _ in range(40):
        clip = augment([picture()] * 3)
        assert (clip[0] == clip[1]).all()
        assert (clip[0] == clip[2]).all()


def test_auto_augment_differs_between_clips() -> None:
    random.seed(0)
    assert len({augment([picture()] * 2)[0].tobytes() for _ in range(20)}) > 8


def test_frames_are_writable() -> None:
    """``RandomErasing`` does."""
    assert augment([picture()])[0].flags.writeable


def test_random_erasing_of_mmaction_is_equal_in_all_frames() -> None:
    """Something-Something's recipe relies on it: one gray box in half of the clips."""
    erase = TRANSFORMS.build({"type": "RandomErasing", "erase_prob": 0.5})
    np.random.seed(0)
    erased = 0
    for _ in range(200):
        imgs = [np.full((40, 40, 3), value, np.uint8) for value in (1, 2, 3)]
        clip = np.stack(erase({"imgs": imgs})["imgs"])
        boxes = (clip == 128).all(axis=-1)
        assert (boxes == boxes[:1]).all()
        erased += boxes.any()
    assert 70 < erased < 130


ALL = dict(brightness=0.125, contrast=0.4, saturation=0.4, hue=0.2)


def frames() -> list[np.ndarray]:
    """A color ramp twice, to compare two frames of a clip, and noise."""
    ramp = np.linspace(0, 255, 24 * 20 * 3).reshape(24, 20, 3).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    return [ramp, ramp.copy(), noise]


@pytest.mark.parametrize("changes", [{name: value} for name, value in ALL.items()] + [ALL])
@pytest.mark.parametrize("seed", range(3))
def test_color_jitter_equals_mmaction_s_wrapper(changes, seed):
    init_default_scope("mmaction")
    wrapper = TRANSFORMS.build(dict(type="TorchVisionWrapper", op="ColorJitter", **changes))
    reached = []
    for transform in (wrapper, ClipColorJitter(**changes)):
        torch.manual_seed(seed)
        reached.append(transform(dict(imgs=frames()))["imgs"])
    theirs, ours = (np.stack(images).astype(int) for images in reached)
    assert reached[1][0].dtype == np.uint8 and reached[1][0].flags.c_contiguous
    assert abs(theirs - ours).max() <= 1
    np.testing.assert_array_equal(ours[0], ours[1])
    assert abs(ours - np.stack(frames())).max() > 1


def test_scale_jitter_draws_each_axis_independently() -> None:
    jitter = TRANSFORMS.build({"type": "ScaleJitter", "ratio_range": (0.9, 1.33)})
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


def test_grayscale_of_the_configs_is_equal_in_all_frames() -> None:
    gray = dict(type="TorchVisionWrapper", op="Grayscale", num_output_channels=3)
    out = np.stack(TRANSFORMS.build(gray)(dict(imgs=[picture()] * 3))["imgs"])
    assert (out == out[:1]).all()
    assert (out[..., :1] == out).all()
