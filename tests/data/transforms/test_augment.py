"""Augmentation of clips, equal in all frames."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.registry import init_default_scope
from torch import Tensor

from mmvidformer.data.transforms.augment import (
    ClipColorJitter,
    ClipErasing,
    ClipFlip,
    ClipMultiScaleCrop,
)
from mmvidformer.models.preprocessor import VideoDataPreprocessor
from mmvidformer.registry import TRANSFORMS


def clip(frames: int = 3, height: int = 20, width: int = 24) -> Tensor:
    """Equal frames of noise (T, 3, H, W)."""
    frame = torch.randint(256, (3, height, width), generator=torch.Generator().manual_seed(0))
    return frame.byte().expand(frames, -1, -1, -1).contiguous()


def sample(label: int | list[int] = 0) -> ActionDataSample:
    return ActionDataSample().set_gt_label(label)


def augment(*transforms: dict) -> Callable[[Tensor, ActionDataSample], Tensor]:
    return VideoDataPreprocessor(transforms).augment_clip


def test_views_and_frames_of_a_sample_are_changed_alike() -> None:
    """Clips of ``FormatShape('NCTHW')`` and frames of ``FormatShape('NCHW')``."""
    change = augment(
        dict(type="mmvidformer.ClipColorJitter", brightness=0.5),
        dict(type="mmvidformer.ClipFlip", p=1.0),
    )
    frames = clip(6)
    views = frames.unflatten(0, (2, 3)).transpose(1, 2)  # (2, 3, T, H, W)
    results = []
    for inputs in (frames, views):
        torch.manual_seed(0)
        results.append(change(inputs, sample()))
    assert results[1].shape == views.shape
    assert torch.equal(results[1].transpose(1, 2).flatten(0, 1), results[0])
    assert torch.equal(results[0], results[0][:1].expand_as(results[0]))
    assert not torch.equal(results[0], frames.flip(-1))


def test_samples_may_have_no_label() -> None:
    change = augment(dict(type="mmvidformer.ClipFlip", p=1.0, label_map={0: 1}))
    assert torch.equal(change(clip(), ActionDataSample()), clip().flip(-1))


def test_transforms_of_mmaction_are_refused() -> None:
    init_default_scope("mmaction")
    with pytest.raises(ValueError, match=r"torchvision\.transforms\.v2 or mmvidformer.*got Flip"):
        augment(dict(type="Flip"))


@pytest.mark.parametrize(("label", "swapped"), [(86, 87), (87, 86), (5, 5)])
def test_flips_swap_classes_that_name_a_side(label, swapped) -> None:
    """For Something-Something V2; the swap happens if and only if the clip is flipped."""
    change = augment(dict(type="mmvidformer.ClipFlip", p=0.5, label_map={86: 87, 87: 86}))
    torch.manual_seed(0)
    flips = 0
    for _ in range(40):
        one = sample(label)
        out = change(clip(), one)
        flipped = torch.equal(out, clip().flip(-1))
        assert flipped or torch.equal(out, clip())
        assert one.gt_label.tolist() == [swapped if flipped else label]
        flips += flipped
    assert 10 < flips < 30


@pytest.mark.parametrize("label", [[0, 1], [0.0, 0.0, 1.0, 0.0]], ids=["two tasks", "one-hot"])
def test_only_labels_of_one_class_are_swapped(label) -> None:
    """By value, (noun 0, verb 1) would become [1, 0], and the one-hot label [1, 1, 0, 1]."""
    frames, label = clip(), torch.tensor(label)
    with pytest.raises(ValueError, match=r"labels of one class \(1,\), got the shape \([24],\)"):
        ClipFlip(0.0, {0: 1, 1: 0})(frames, label)
    assert ClipFlip(1.0)(frames, label)[1] is label


def test_flips_do_not_change_the_label_in_place() -> None:
    label = torch.tensor([86])
    assert ClipFlip(1.0, {86: 87})(clip(), label)[1].tolist() == [87]
    assert label.tolist() == [86]


ALL = dict(brightness=0.125, contrast=0.4, saturation=0.4, hue=0.2)


def ramp_and_noise() -> np.ndarray:
    """A color ramp twice, to compare two frames of a clip, and noise."""
    ramp = np.linspace(0, 255, 24 * 20 * 3).reshape(24, 20, 3).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    return np.stack([ramp, ramp, noise])


@pytest.mark.parametrize("changes", [{name: value} for name, value in ALL.items()] + [ALL])
@pytest.mark.parametrize("seed", range(3))
def test_color_jitter_equals_mmaction_s_wrapper(changes, seed) -> None:
    init_default_scope("mmaction")
    wrapper = TRANSFORMS.build(dict(type="TorchVisionWrapper", op="ColorJitter", **changes))
    frames = ramp_and_noise()
    jitter = ClipColorJitter(**changes)
    torch.manual_seed(seed)
    theirs = np.stack(wrapper(dict(imgs=list(frames)))["imgs"]).astype(int)
    torch.manual_seed(seed)
    ours = jitter(torch.from_numpy(frames).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).numpy()
    assert abs(theirs - ours).max() <= 1
    np.testing.assert_array_equal(ours[0], ours[1])
    assert abs(ours.astype(int) - frames).max() > 1


def test_color_jitter_has_a_probability() -> None:
    torch.manual_seed(0)
    jitter = ClipColorJitter(p=0.8, brightness=0.5)
    changed = sum(not torch.equal(jitter(clip()), clip()) for _ in range(200))
    assert 140 < changed < 180


def test_color_jitter_shifts_brightness() -> None:
    """As TensorFlow's ``random_brightness``: all values by the same amount, up to the limits."""
    torch.manual_seed(0)
    jitter, frames = ClipColorJitter(shift=32), torch.arange(256).byte().view(1, 1, 16, 16)
    frames = frames.expand(2, 3, 16, 16)
    found = []
    for _ in range(200):
        changed = jitter(frames).int()
        found.append(changed[0, 0, 8, 0].item() - 128)
        torch.testing.assert_close(changed, (frames.int() + found[-1]).clamp(0, 255))
    assert (min(found), max(found)) in {(a, b) for a in (-32, -31) for b in (31, 32)}
    assert abs(np.mean(found)) < 4


def test_erasing_with_noise() -> None:
    """N(115, 57.5), drawn per pixel and channel, the same in all frames."""
    torch.manual_seed(0)
    erase = ClipErasing(p=1.0, scale=(0.3, 0.3), ratio=(1.0, 1.0), value="random")
    found = erase(torch.full((2, 3, 100, 100), 7, dtype=torch.uint8))
    assert found.dtype == torch.uint8
    torch.testing.assert_close(found[0], found[1])
    inside = found[0, 0] != 7
    rows, columns = inside.any(1), inside.any(0)
    assert (rows.sum(), columns.sum()) == (55, 55)
    noise = found[0][:, rows][:, :, columns].double()
    assert noise.mean() == pytest.approx(115, abs=3)
    assert noise.std() == pytest.approx(57, abs=3)
    assert torch.corrcoef(noise.flatten(1))[0, 1].abs() < 0.1


def test_multi_scale_crop_equals_mmaction_s() -> None:
    """From the same draws, within one of 255 levels: both interpolate linearly."""
    init_default_scope("mmaction")
    settings = dict(scales=(1, 0.75), num_fixed_crops=13, max_wh_scale_gap=1)
    theirs = TRANSFORMS.build(dict(type="MultiScaleCrop", input_size=32, **settings))
    resize = TRANSFORMS.build(dict(type="Resize", scale=(32, 32), keep_ratio=False))
    ours = ClipMultiScaleCrop(size=32, **settings)
    frames = clip(2, 40, 50)
    images = list(frames.permute(0, 2, 3, 1).contiguous().numpy())
    for seed in range(10):
        random.seed(seed)
        results = dict(imgs=images, img_shape=(40, 50), modality="RGB")
        expected = np.stack(resize(theirs(results))["imgs"]).astype(int)
        random.seed(seed)
        found = ours(frames).permute(0, 2, 3, 1).numpy()
        assert abs(found - expected).max() <= 1


def test_random_erasing_of_the_recipes_is_mmaction_s_distribution() -> None:
    """Something-Something's recipe: one gray box, the same in all frames, in half of the clips."""
    init_default_scope("mmaction")
    kind = "torchvision.transforms.v2.RandomErasing"
    ours = augment(dict(type=kind, p=0.5, scale=(0.02, 1 / 3), value=128))
    theirs = TRANSFORMS.build(dict(type="RandomErasing", erase_prob=0.5))
    torch.manual_seed(0)
    np.random.seed(0)
    areas = {"ours": [], "theirs": []}
    for _ in range(400):
        out = ours(torch.ones(3, 3, 40, 40, dtype=torch.uint8), sample())
        boxes = (out == 128).all(dim=1)
        assert torch.equal(boxes, boxes[:1].expand_as(boxes))
        areas["ours"].append(boxes[0].float().mean().item())
        image = theirs(dict(imgs=[np.ones((40, 40, 3), np.uint8)]))["imgs"][0]
        areas["theirs"].append((image == 128).mean())
    ours, theirs = (np.array(values) for values in areas.values())
    assert (ours > 0).mean() == pytest.approx((theirs > 0).mean(), abs=0.1)
    assert ours[ours > 0].mean() == pytest.approx(theirs[theirs > 0].mean(), abs=0.02)
    assert ours.max() <= 0.36


def test_grayscale_of_the_recipes_equals_mmaction_s_wrapper() -> None:
    init_default_scope("mmaction")
    gray = augment(dict(type="torchvision.transforms.v2.RandomGrayscale", p=1.0))
    settings = dict(type="TorchVisionWrapper", op="Grayscale", num_output_channels=3)
    frames = ramp_and_noise()
    expected = np.stack(TRANSFORMS.build(settings)(dict(imgs=list(frames)))["imgs"]).astype(int)
    found = gray(torch.from_numpy(frames).permute(0, 3, 1, 2), sample())
    assert abs(found.permute(0, 2, 3, 1).numpy() - expected).max() <= 1
