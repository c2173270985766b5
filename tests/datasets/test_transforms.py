import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as F

from mmvidformer.datasets.transforms.rand_augment import OPERATIONS
from mmvidformer.registry import TRANSFORMS


def clip(frames: int = 3, height: int = 16, width: int = 24) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return list(rng.integers(0, 256, (frames, height, width, 3), dtype=np.uint8))


def augment(name: str, imgs: list, magnitude: float = 5) -> np.ndarray:
    transform = TRANSFORMS.build(
        {"type": "VideoRandAugment", "num_layers": 1, "magnitude": magnitude, "operations": [name]}
    )
    return np.stack(transform({"imgs": imgs})["imgs"])


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
    imgs = clip()
    np.testing.assert_array_equal(
        augment(name, imgs), expected(tall(imgs)).permute(1, 2, 0).unflatten(0, (3, 16)).numpy()
    )


@pytest.mark.parametrize("name", ["Brightness", "Color", "Contrast", "Sharpness"])
def test_enhancements_grow_with_the_level(name: str) -> None:
    imgs = clip()
    change = [np.abs(augment(name, imgs, m).astype(int) - np.stack(imgs)).mean() for m in (5, 7, 9)]
    assert change[0] == 0 < change[1] < change[2]


def test_cutout_is_one_box_in_all_frames() -> None:
    np.random.seed(0)
    imgs = [np.full((200, 200, 3), 9, np.uint8)] * 3
    out = augment("Cutout", imgs, magnitude=5)
    np.testing.assert_array_equal(out[0], out[2])
    rows, columns = np.nonzero(out[0, :, :, 0] != 9)
    assert set(out[0][rows, columns].flatten()) == {0}
    assert (rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1) == len(rows)
    assert len(rows) <= 40 * 40


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.parametrize("magnitude", [0, 9, 20])
def test_equal_frames_stay_equal(name: str, magnitude: float) -> None:
    imgs = [clip(1)[0]] * 4
    out = augment(name, imgs, magnitude)
    assert out.dtype == np.uint8
    assert out.shape == (4, 16, 24, 3)
    if name != "Sharpness":  # its filter sees the seam between stacked frames
        assert (out == out[:1]).all()
    else:
        assert (out[:, 1:-1] == out[:1, 1:-1]).all()


def test_draws_follow_the_seed_and_use_all_operations() -> None:
    transform = TRANSFORMS.build({"type": "VideoRandAugment", "num_layers": 2, "magnitude": 7})
    outs = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        outs.append(np.stack([transform({"imgs": clip()})["imgs"][0] for _ in range(4)]))
    assert (outs[0] == outs[1]).all()
    assert (outs[0] != outs[2]).any()
    assert len(transform.operations) == 12


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"operations": ["Rotate"]}, KeyError, "Rotate.*Solarize"),
        ({"magnitude": -1}, ValueError, "-1"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        TRANSFORMS.build({"type": "VideoRandAugment", **kwargs})


def test_uniform_frames_of_each_clip() -> None:
    uniform = TRANSFORMS.build({"type": "UniformFrames", "num_frames": 3})
    inds = np.concatenate([100 + 2 * np.arange(8), 200 + 2 * np.arange(8)])
    out = uniform({"frame_inds": inds, "clip_len": 8})
    # round(k 8 / 4) = 2, 4, 6
    assert out["frame_inds"].tolist() == [104, 108, 112, 204, 208, 212]
    assert out["clip_len"] == 3
    with pytest.raises(ValueError, match="keep 9 of 8"):
        TRANSFORMS.build({"type": "UniformFrames", "num_frames": 9})(
            {"frame_inds": inds, "clip_len": 8}
        )


def test_uniform_frames_may_keep_all() -> None:
    uniform = TRANSFORMS.build({"type": "UniformFrames", "num_frames": 4})
    out = uniform({"frame_inds": np.array([3, 5, 7, 9]), "clip_len": 4})
    assert out["frame_inds"].tolist() == [3, 5, 7, 9]


def test_scale_jitter_draws_each_axis_for_itself() -> None:
    jitter = TRANSFORMS.build({"type": "ScaleJitter", "ratio_range": (0.9, 1.33)})
    np.random.seed(0)
    shapes = []
    for _ in range(200):
        out = jitter({"imgs": clip(2, 20, 30), "img_shape": (20, 30)})
        assert {img.shape for img in out["imgs"]} == {(*out["img_shape"], 3)}
        shapes.append(out["img_shape"])
    heights, widths = np.array(shapes).T
    assert (heights.min(), heights.max()) == (18, 26)
    assert (widths.min(), widths.max()) == (27, 39)
    assert abs(np.corrcoef(heights, widths)[0, 1]) < 0.2


def test_scale_jitter_may_be_rare() -> None:
    jitter = TRANSFORMS.build({"type": "ScaleJitter", "prob": 0.0})
    imgs = clip(2)
    assert jitter({"imgs": imgs, "img_shape": (16, 24)})["imgs"] is imgs


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"ratio_range": (1.3, 0.9)}, "1.3, 0.9"),
        ({"ratio_range": (0, 1)}, "low"),
        ({"prob": 2}, "2"),
    ],
)
def test_wrong_jitter_is_named(kwargs: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TRANSFORMS.build({"type": "ScaleJitter", **kwargs})


def test_sampling_stays_in_the_segment() -> None:
    limit = TRANSFORMS.build({"type": "LimitToSegment"})
    sample = TRANSFORMS.build({"type": "SampleFrames", "clip_len": 4, "frame_interval": 3})
    for _ in range(30):
        out = sample(limit({"segment": (10, 29), "total_frames": 100, "start_index": 0}))
        assert out["frame_inds"].min() >= 10
        assert out["frame_inds"].max() <= 29
    assert limit({"segment": (10, 29), "total_frames": 20})["total_frames"] == 10
    with pytest.raises(ValueError, match="10 to 29 of a.mp4 begins after the video's 10"):
        limit({"segment": (10, 29), "total_frames": 10, "filename": "a.mp4"})


def test_colour_recipe_of_the_configs_is_one_draw_a_clip() -> None:
    """What the Kinetics configs use of MMAction2, torchvision and mmcv."""
    jitter = TRANSFORMS.build(
        {
            "type": "TorchVisionWrapper",
            "op": "ColorJitter",
            "brightness": 0.125,
            "contrast": 0.4,
            "saturation": 0.4,
            "hue": 0.2,
        }  # fmt: skip
    )
    torch.manual_seed(0)
    imgs = [clip(1)[0]] * 4
    out = np.stack(jitter({"imgs": imgs})["imgs"])
    assert (out == out[:1]).all()
    assert (out[0] != imgs[0]).any()
