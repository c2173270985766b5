import re
from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.data.transforms import auto_augment
from mmvidformer.data.transforms.auto_augment import SCENIC_OPERATIONS, ClipRandAugment

OFFICIAL = np.load(Path(__file__).parents[2] / "golden" / "rand_augment.npz")


def noise(frames: int = 3, height: int = 16, width: int = 24) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return list(rng.integers(0, 256, (frames, height, width, 3), dtype=np.uint8))


def clip(imgs: list | np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack(imgs)).permute(0, 3, 1, 2)


def augment(name: str, imgs: list, magnitude: float = 5) -> np.ndarray:
    """Apply one operation, as ClipRandAugment does if it draws no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto_augment, "SCENIC_OPERATIONS", {name: SCENIC_OPERATIONS[name]})
        transform = ClipRandAugment(num_layers=1, magnitude=magnitude)
        return transform(clip(imgs)).permute(0, 2, 3, 1).numpy()


def official(case: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what the official function and this package make of a clip with the same draws."""
    level, names = case.split("/")
    drawn = iter([int(side) for side in re.findall(r"\d+", names)])
    operations = [name for name in names.replace(",", "").split() if name.isalpha()]
    indices = [list(SCENIC_OPERATIONS).index(name) for name in operations]

    def randint(high: int, size: tuple) -> torch.Tensor:
        return torch.tensor(indices if size else next(drawn))

    source = OFFICIAL["large" if "Cutout" in names else "input"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randint", randint)
        transform = ClipRandAugment(num_layers=len(indices), magnitude=int(level))
        return OFFICIAL[case], transform(clip(source)).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("case", [name for name in OFFICIAL.files if "/" in name])
def test_equals_the_official_function(case: str) -> None:
    expected, result = official(case)
    rounding = {"AutoContrast": 1, "Color": 3, "Sharpness": 3}  # TensorFlow rounds down
    difference = np.abs(result.astype(int) - expected)
    assert difference.max() <= rounding.get(case.partition("/")[2], 0)


def test_has_the_official_operations() -> None:
    drawn = {re.split(r"[/, ]", name)[1] for name in OFFICIAL.files if "/" in name}
    assert drawn == {*SCENIC_OPERATIONS}
    assert len(SCENIC_OPERATIONS) == 12


@pytest.mark.parametrize("name", ["Brightness", "Color", "Sharpness"])
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


def test_draws_follow_the_seed() -> None:
    transform = ClipRandAugment(num_layers=2, magnitude=7)
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(torch.stack([transform(clip(noise())) for _ in range(4)]))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
