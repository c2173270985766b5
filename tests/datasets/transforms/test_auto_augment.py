"""AutoAugment on tensors equals timm's on Pillow images."""

import random
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import auto_augment as timm
from torch import Tensor

from mmvidformer.datasets.transforms.auto_augment import (
    MAPS,
    TIMM_OPERATIONS,
    ClipAutoAugment,
    _on_tensors,
)

BOTH = (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)


def frames(height: int = 20, width: int = 24) -> np.ndarray:
    """Noise, dark noise, and a ramp, (3, H, W, 3)."""
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    ramp = np.linspace(0, 255, noise.size).reshape(noise.shape).astype(np.uint8)
    return np.stack([noise, noise // 3 + 20, ramp])


def tensor(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def difference(found: Tensor, expected: list) -> int:
    images = np.stack([np.array(image) for image in expected]).astype(int)
    return abs(found.permute(0, 2, 3, 1).numpy() - images).max()


STRENGTHS = {
    "brightness": (0.1, 1.72),
    "color": (0.1, 1.72),
    "contrast": (0.3, 1.5),
    "posterize": (1, 3, 8),
    "sharpness": (0.4, 1.36),
    "solarize": (0, 100, 256),
    "solarize_add": (33, 128),
    "rotate": (0.0, 24.0, -27.0),
    "shear_x": (0.0, 0.27, -0.27),
    "shear_y": (0.12, -0.21),
    "translate_x_rel": (0.405, -0.405),
    "translate_y_rel": (0.405, -0.405),
}


@pytest.mark.parametrize("size", [(20, 24), (33, 17)])
@pytest.mark.parametrize("name", [*TIMM_OPERATIONS, *MAPS])
def test_operations_equal_pillow_s(name: str, size: tuple[int, int]) -> None:
    """Within one level, in each frame; bit for bit but for interpolation and sharpness."""
    images = frames(*size)
    for strength in [(s,) for s in STRENGTHS[name]] if name in STRENGTHS else [()]:
        for resample in BOTH if name in MAPS else BOTH[:1]:
            call = dict(resample=(resample,), fillcolor=(128, 128, 128))
            reference = partial(getattr(timm, name), **call)
            expected = [reference(Image.fromarray(image), *strength) for image in images]
            found = _on_tensors(name)(tensor(images), *strength, **call)
            exact = name not in MAPS and name not in ("auto_contrast", "sharpness")
            assert difference(found, expected) <= (0 if exact else 1), (strength, resample)


@pytest.mark.parametrize("policy", ["v0", "v0r", "original", "originalr"])
def test_draws_are_timm_s(policy: str) -> None:
    """From the same seed, whole policies on a frame: nearly all pixels are equal."""
    reference, ours = timm.auto_augment_transform(policy), ClipAutoAugment(policy)
    image = frames()[:1]
    changed = 0
    for seed in range(60):
        random.seed(seed)
        try:
            expected = np.array(reference(Image.fromarray(image[0])))
        except ValueError:  # Pillow refuses to keep no bits
            continue
        random.seed(seed)
        found = ours(tensor(image))
        gap = abs(found[0].permute(1, 2, 0).numpy() - expected.astype(int))
        # A later equalization amplifies a level of interpolation.
        assert (gap > 1).mean() < 0.02 and gap.max() <= 16
        changed += (found != tensor(image)).any().item()
    assert changed > 30


def test_rand_augment_draws_timm_s_operations() -> None:
    """DeiT's: 2 of 15 operations with replacement, each with probability 0.5."""
    policy = "rand-m9-mstd0.5-inc1"
    cubic = dict(interpolation=(Image.Resampling.BICUBIC,))
    reference, ours = timm.rand_augment_transform(policy, cubic), ClipAutoAugment(policy)
    image, same = frames()[:1], 0
    for seed in range(60):
        random.seed(seed)
        drawn = Image.fromarray(image[0])
        for _ in range(reference.num_layers):
            drawn = random.choice(reference.ops)(drawn)
        random.seed(seed)
        found = ours(tensor(image))
        same += np.mean(found[0].permute(1, 2, 0).numpy() != np.array(drawn)) < 0.05
    assert same >= 50  # the rest interpolates, and is off by one level
    assert (reference.num_layers, len(reference.ops)) == (2, 15)


def test_posterizing_to_no_bits_gives_black() -> None:
    """A row of 'v0', which Pillow 13 refuses."""
    assert _on_tensors("posterize")(tensor(frames()), 0, resample=BOTH).max() == 0


def test_one_draw_per_clip() -> None:
    random.seed(0)
    image, seen = tensor(frames()[:1]), set()
    for _ in range(40):
        clip = ClipAutoAugment()(image.repeat(3, 1, 1, 1))
        assert torch.equal(clip, clip[:1].expand_as(clip))
        seen.add(clip.numpy().tobytes())
    assert len(seen) > 12


def test_a_policy_with_other_operations_is_refused() -> None:
    with pytest.raises(KeyError, match="no operation of AutoAugment named 'desaturate'"):
        ClipAutoAugment("3a")
