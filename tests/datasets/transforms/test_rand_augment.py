import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as F

from mmvidformer.datasets.transforms import auto_augment
from mmvidformer.datasets.transforms.auto_augment import SCENIC_OPERATIONS, ClipRandAugment


def noise(frames: int = 3, height: int = 16, width: int = 24) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return list(rng.integers(0, 256, (frames, height, width, 3), dtype=np.uint8))


def clip(imgs: list) -> torch.Tensor:
    return torch.from_numpy(np.stack(imgs)).permute(0, 3, 1, 2)


def augment(name: str, imgs: list, magnitude: float = 5) -> np.ndarray:
    """Apply one operation, as ClipRandAugment does if it draws no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto_augment, "SCENIC_OPERATIONS", {name: SCENIC_OPERATIONS[name]})
        transform = ClipRandAugment(num_layers=1, magnitude=magnitude)
        return transform(clip(imgs)).permute(0, 2, 3, 1).numpy()


def tall(imgs: list) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(imgs)).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Identity", lambda x: x),
        ("Invert", lambda x: 255 - x),
        ("Posterize", lambda x: x & 0b11000000),
        ("Solarize", lambda x: torch.where(x < 128, x, 255 - x)),
        ("SolarizeAdd", lambda x: torch.where(x < 128, (x.int() + 55).clamp(max=255).byte(), x)),
        ("AutoContrast", F.autocontrast),
        ("Equalize", F.equalize),
        ("Brightness", lambda x: F.adjust_brightness(x, 1.0)),
        ("Color", lambda x: F.adjust_saturation(x, 1.0)),
        ("Contrast", lambda x: F.adjust_contrast(x, 1.0)),
        ("Sharpness", lambda x: F.adjust_sharpness(x, 1.0)),
    ],
)
def test_operations_at_level_five(name: str, expected) -> None:
    imgs = noise()
    np.testing.assert_array_equal(
        augment(name, imgs), expected(tall(imgs)).permute(1, 2, 0).unflatten(0, (3, 16)).numpy()
    )


@pytest.mark.parametrize("name", ["Brightness", "Color", "Contrast", "Sharpness"])
def test_enhancements_grow_with_the_magnitude(name: str) -> None:
    imgs = noise()
    change = [np.abs(augment(name, imgs, m).astype(int) - np.stack(imgs)).mean() for m in (5, 7, 9)]
    assert change[0] == 0 < change[1] < change[2]


def test_cutout_is_one_box_in_all_frames() -> None:
    torch.manual_seed(0)
    imgs = [np.full((200, 200, 3), 9, np.uint8)] * 3
    out = augment("Cutout", imgs, magnitude=5)
    np.testing.assert_array_equal(out[0], out[2])
    rows, columns = np.nonzero(out[0, :, :, 0] != 9)
    assert set(out[0][rows, columns].flatten()) == {0}
    assert (rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1) == len(rows)
    assert len(rows) <= 40 * 40


@pytest.mark.parametrize("name", sorted(SCENIC_OPERATIONS))
@pytest.mark.parametrize("magnitude", [0, 9, 20])
def test_equal_frames_stay_equal(name: str, magnitude: float) -> None:
    imgs = [noise(1)[0]] * 4
    out = augment(name, imgs, magnitude)
    assert out.dtype == np.uint8
    assert out.shape == (4, 16, 24, 3)
    if name != "Sharpness":  # its filter crosses the border of stacked frames
        assert (out == out[:1]).all()
    else:
        assert (out[:, 1:-1] == out[:1, 1:-1]).all()


@pytest.mark.parametrize("name", ["Posterize", "Solarize"])
def test_posterizing_and_solarizing_fade_out_beyond_level_ten(name: str) -> None:
    """Something-Something's recipe has level 20: the threshold is above every pixel."""
    imgs = noise()
    for magnitude in (10, 15, 20):
        unchanged = (augment(name, imgs, magnitude) == np.stack(imgs)).all()
        assert unchanged == (name == "Solarize" or magnitude == 20)


def test_draws_follow_the_seed() -> None:
    transform = ClipRandAugment(num_layers=2, magnitude=7)
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(torch.stack([transform(clip(noise())) for _ in range(4)]))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
