"""AutoAugment and random erasing change all frames of a clip alike."""

import random

import numpy as np
import pytest
from PIL import Image
from timm.data.auto_augment import auto_augment_transform

from mmvidformer.registry import TRANSFORMS


def picture() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)


def augment(imgs: list[np.ndarray], policy: str = "v0") -> list[np.ndarray]:
    return TRANSFORMS.build({"type": "VideoAutoAugment", "policy": policy})({"imgs": imgs})["imgs"]


@pytest.mark.parametrize("policy", ["v0", "original"])
def test_a_frame_is_what_timm_makes_of_it(policy: str) -> None:
    reference = auto_augment_transform(policy)
    changed = 0
    for seed in range(40):
        random.seed(seed)
        try:
            expected = np.array(reference(Image.fromarray(picture())))
        except ValueError:  # of Pillow, which keeps at least a bit
            continue
        random.seed(seed)
        found = augment([picture()], policy)[0]
        np.testing.assert_array_equal(found, expected)
        changed += (found != picture()).any()
    assert changed > 20


def test_a_row_that_keeps_no_bit_gives_black() -> None:
    """Of 'v0': posterised to 0 bits (Pillow 13 refuses that), then perhaps solarised."""
    transform = TRANSFORMS.build({"type": "VideoAutoAugment"})
    row = next(row for row in transform.augment.policy if row[0].name == "Posterize"
               and row[0].magnitude == 2)  # fmt: skip
    transform.augment.policy = [row[:1]]
    row[0].prob = 1.0
    assert transform({"imgs": [picture()]})["imgs"][0].max() == 0


def test_all_frames_get_the_same_draw() -> None:
    random.seed(0)
    for _ in range(40):
        clip = augment([picture()] * 3)
        assert (clip[0] == clip[1]).all()
        assert (clip[0] == clip[2]).all()


def test_clips_get_different_draws() -> None:
    random.seed(0)
    assert len({augment([picture()] * 2)[0].tobytes() for _ in range(20)}) > 8


def test_frames_can_be_written_to() -> None:
    """``RandomErasing`` does."""
    assert augment([picture()])[0].flags.writeable


def test_policies_are_listed() -> None:
    with pytest.raises(KeyError, match="'v1'.*original.*v0"):
        augment([], "v1")


def test_random_erasing_of_mmaction_is_one_box_in_all_frames() -> None:
    """What the recipe of Something-Something relies on: half of the clips, one grey box."""
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
