"""AutoAugment on tensors equals timm's on Pillow images."""

import random
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import auto_augment as timm
from torch import Tensor

from mmvidformer.data.transforms.auto_augment import TIMM_OPERATIONS, ClipAutoAugment


def frames(height: int = 20, width: int = 24) -> np.ndarray:
    """Noise, dark noise, and a ramp, (3, H, W, 3)."""
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    ramp = np.linspace(0, 255, noise.size).reshape(noise.shape).astype(np.uint8)
    return np.stack([noise, noise // 3 + 20, ramp])


def tensor(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2)


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
@pytest.mark.parametrize("name", [*TIMM_OPERATIONS])
def test_operations_equal_pillow_s(name: str, size: tuple[int, int]) -> None:
    """Within one level, in each frame, but where an affine map blends the border with gray."""
    images = frames(*size)
    linear = dict(resample=(Image.Resampling.BILINEAR,), fillcolor=(128, 128, 128))
    border = 0.09 if name.split("_")[0] in ("rotate", "shear", "translate") else 0
    for strength in [(s,) for s in STRENGTHS[name]] if name in STRENGTHS else [()]:
        reference = partial(getattr(timm, name), **linear)
        expected = np.stack([np.array(reference(Image.fromarray(i), *strength)) for i in images])
        found = TIMM_OPERATIONS[name](tensor(images), *strength).permute(0, 2, 3, 1).numpy()
        assert (abs(found.astype(int) - expected) > 1).mean() <= border, strength


@pytest.mark.parametrize("policy", ["v0", "originalr", "rand-m9-mstd0.5-inc1"])
def test_draws_are_timm_s(policy: str) -> None:
    """From the same seed, a constant frame ends with the same colors, gray outside."""
    linear = dict(interpolation=Image.Resampling.BILINEAR)  # a tuple would take a draw
    if policy.startswith("rand"):
        drawn = timm.rand_augment_transform(policy, linear)
        rows, layers = [[one] for one in drawn.ops], drawn.num_layers
        assert (len(rows), layers) == (15, 2)
    else:
        rows, layers = timm.auto_augment_policy(policy, linear), 1
    ours = ClipAutoAugment(policy)
    image = np.empty((1, 60, 80, 3), np.uint8)
    image[...] = 200, 90, 30
    changed, same = 0, []
    for seed in range(60):
        random.seed(seed)
        expected = Image.fromarray(image[0])
        try:
            for operation in (one for _ in range(layers) for one in random.choice(rows)):
                expected = operation(expected)
        except ValueError:  # Pillow refuses to keep no bits
            continue
        expected = np.array(expected)
        random.seed(seed)
        found = ours(tensor(image))[0].permute(1, 2, 0).numpy()
        same.append((abs(found.astype(int) - expected) > 2).mean() < 0.05)
        changed += (expected != image[0]).any()
    # An equalization may amplify the blending at a border.
    assert changed > 20 and np.mean(same) > 0.9


def test_posterizing_to_no_bits_gives_black() -> None:
    """A row of 'v0', which Pillow 13 refuses."""
    assert TIMM_OPERATIONS["posterize"](tensor(frames()), 0).max() == 0


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
