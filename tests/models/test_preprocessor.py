"""Augmentation in the data preprocessor."""

import copy
import random

import pytest
import torch
from mmaction.structures import ActionDataSample
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from mmvidformer import get_config
from mmvidformer.models import preprocessor
from mmvidformer.models.preprocessor import VideoDataPreprocessor, process_random_state

# One recipe for each list of augmentations.
RECIPES = [
    *("vivit_fe_k400", "vivit_l_fe_sthv2", "vivit_l_fe_ek100", "timesformer_b_k400"),
    *("feature_fixation_sthv2", "feature_fixation_k400", "feature_fixation/table10/k400"),
    *("feature_fixation_image", "horst_early25_sthv2", "horst_ek55"),
]
JITTER = [
    dict(type="mmvidformer.ClipFlip", p=0.5, label_map={0: 1}),
    dict(type="mmvidformer.ClipColorJitter", brightness=0.5, hue=0.2),
    dict(type="mmvidformer.ClipAutoAugment"),
]


def batch(size: int = 4, height: int = 40, width: int = 48, views: int = 2) -> dict:
    generator = torch.Generator().manual_seed(0)
    clips = torch.randint(256, (size, views, 3, 4, height, width), generator=generator).byte()
    samples = [ActionDataSample().set_gt_label(0) for _ in range(size)]
    return dict(inputs=list(clips), data_samples=samples)


def build(augment: list[dict] = JITTER, **kwargs: object) -> VideoDataPreprocessor:
    return VideoDataPreprocessor(augment, format_shape="NCTHW", **kwargs)


def run(model: VideoDataPreprocessor, seed: int = 0, **sizes: int) -> Tensor:
    torch.manual_seed(seed)
    return model(batch(**sizes), training=True)["inputs"]


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_augment_before_normalization(name: str) -> None:
    """Clips end in one size."""
    augment = copy.deepcopy(get_config(name).model.data_preprocessor.augment)
    for transform in augment:
        if "size" in transform:
            transform.size = 32
    found, data = run(build(augment)), batch()
    torch.manual_seed(0)
    with process_random_state():
        pairs = zip(data["inputs"], data["data_samples"], strict=True)
        expected = [build(augment).augment_clip(*pair) for pair in pairs]
    assert expected[0].dtype == torch.uint8
    assert torch.equal(found, torch.stack(expected).float())
    plain = torch.stack(batch()["inputs"])
    assert found.shape != plain.shape or not torch.equal(found, plain)


def test_normalization_and_mixup_follow() -> None:
    blending = dict(type="mmvidformer.ReversedMixup", num_classes=3, alpha=0.3)
    scale = dict(mean=[100.0, 110.0, 120.0], std=[50.0, 60.0, 70.0])
    plain, data = run(build()), batch()
    torch.manual_seed(0)
    out = build(**scale, blending=blending)(data, training=True)
    mean, std = (torch.tensor(scale[key]).view(-1, 1, 1, 1) for key in ("mean", "std"))
    normalized = (plain - mean) / std
    weight = out["data_samples"][0].gt_label  # of the labels 0 and 1, which flips made
    flipped = [(sample.gt_label[1] > 0).item() for sample in out["data_samples"]]
    assert weight.sum() == pytest.approx(1) and any(flipped)
    torch.manual_seed(0)
    torch.randint(2**62, ())
    mixed, _ = build(**scale, blending=blending).blending.do_blending(normalized, torch.zeros(4, 3))
    torch.testing.assert_close(out["inputs"], mixed)


def test_views_of_a_sample_are_augmented_alike_and_samples_differently() -> None:
    data = batch(size=6, views=1)
    data["inputs"] = [data["inputs"][0].repeat(2, 1, 1, 1, 1)] * 6
    torch.manual_seed(0)
    out = build()(data, training=True)["inputs"]
    assert torch.equal(out[:, 0], out[:, 1])
    assert len({clip.numpy().tobytes() for clip in out}) == 6


def test_nothing_is_augmented_in_testing() -> None:
    out = build()(batch(), training=False)["inputs"]
    assert torch.equal(out, torch.stack(batch()["inputs"]).float())
    assert build()({**batch(), "data_samples": None})["data_samples"] is None


def test_draws_follow_the_seed_and_disturb_no_others() -> None:
    assert torch.equal(run(build()), run(build()))
    assert not torch.equal(run(build()), run(build(), seed=1))
    random.seed(3)
    states = []
    for augment in (JITTER, JITTER[:1]):  # however much is drawn
        run(build(augment))
        states.append((torch.get_rng_state(), random.getstate()))
    assert torch.equal(states[0][0], states[1][0]) and states[0][1] == states[1][1]
    random.seed(3)
    assert random.getstate() == states[0][1]


def test_equally_seeded_processes_draw_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(build())
    monkeypatch.setattr(preprocessor, "number_of_process", lambda: 1)
    assert not torch.equal(first, run(build()))


def test_mixed_precision_does_not_round_pixels() -> None:
    """Training steps call the preprocessor under autocast; sharpness is a convolution."""
    sharp = [dict(type="torchvision.transforms.v2.RandomAdjustSharpness", sharpness_factor=1.7)]
    plain = run(build(sharp))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(build(sharp)), plain)


def test_clips_of_different_lengths() -> None:
    data = batch(size=2, views=1)
    data["inputs"][1] = data["inputs"][1][:, :, :3]
    scale = dict(mean=[110.0, 120.0, 130.0], std=[50.0, 60.0, 70.0])
    out = build([], **scale)(copy.deepcopy(data), training=True)
    assert [clip.shape[2] for clip in out["inputs"]] == [4, 3]
    for clip, pixels in zip(out["inputs"], data["inputs"], strict=True):
        alone = build([], **scale)(dict(inputs=[pixels], data_samples=None))["inputs"][0]
        torch.testing.assert_close(clip, alone)
    torch.testing.assert_close(out["inputs"][1][0, 2], (data["inputs"][1][0, 2].float() - 130) / 70)


def test_clips_of_different_lengths_are_not_blended() -> None:
    data = batch(size=2, views=1)
    data["inputs"][1] = data["inputs"][1][:, :, :3]
    preprocess = build(blending=dict(type="MixupBlending", num_classes=3))
    assert len(preprocess(copy.deepcopy(data))["inputs"]) == 2
    with pytest.raises(ValueError, match=r"blending needs clips of one length, got \[3, 4\]"):
        preprocess(data, training=True)


class RealDraws(TorchFunctionMode):
    """Compute on the CPU what has no fake tensor: the draws."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        fake = any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs)))
        if fake or "cuda" in str(kwargs.get("device")):
            return func(*args, **kwargs)
        with unset_fake_temporarily():
            return func(*args, **kwargs)


@pytest.mark.skipif(torch.__version__ < "2.7", reason="PyTorch 2.6 needs a real GPU here")
@pytest.mark.parametrize("name", RECIPES)
def test_a_gpu_is_never_waited_for(name: str) -> None:
    """On a CUDA device that only computes shapes, reading a value raises an error."""
    augment = build(get_config(name).model.data_preprocessor.augment).augment_clip
    torch.manual_seed(0)
    random.seed(0)
    for _ in range(30):  # AutoAugment and RandAugment draw other operations each time
        with FakeTensorMode(allow_non_fake_inputs=True), RealDraws():
            clip = torch.empty(1, 3, 4, 256, 300, dtype=torch.uint8, device="cuda")
            label = torch.zeros(1, dtype=torch.long, device="cuda")
            sample = ActionDataSample().set_gt_label(label)
            out = augment(clip, sample)
        assert out.device.type == sample.gt_label.device.type == "cuda"
        assert out.dtype == torch.uint8


@pytest.mark.gpu
@pytest.mark.parametrize("name", RECIPES)
def test_a_gpu_gives_the_same_clips_within_a_level(name: str) -> None:
    augment = get_config(name).model.data_preprocessor.augment
    cpu, gpu = build(augment), build(augment).to("cuda")
    for seed in range(5):
        sizes = dict(height=240, width=260)
        gap = (run(gpu, seed, **sizes).cpu() - run(cpu, seed, **sizes)).abs()
        assert (gap > 1).float().mean() < 1e-3
        assert torch.equal(run(gpu, seed, **sizes), run(gpu, seed, **sizes))
