"""A stem, positions and rotary positions of a user's: everything works with them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.layers import POSITIONS, ROPES, STEMS, Places
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.run_rules import rule_of
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.models.masked import MaskedPretraining
from tests.models.plug_ins import Average, Backwards, ColorsAndFlow, Fading, Fourier, Ramp
from tests.models.tiny import perturb

SIZES: dict = dict(arch=dict(embed_dims=24, depth=2, num_heads=2), img_size=64, clip_len=4)
AVERAGE = dict(type="average", tubelet=(1, 16, 16))
PARTS: dict = dict(stem=AVERAGE, positions="ramp", rope="fading")
FLOW = dict(type="colors_and_flow", tubelet=(1, 16, 16))
OTHERS: dict = dict(stem=FLOW, positions="fourier", rope="backwards")
SETS: dict = {
    "average": PARTS,
    "two inputs": OTHERS,
    "two inputs, class token": dict(OTHERS, cls="mean", registers=2),
}
with_each = pytest.mark.parametrize("parts", SETS)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(STEMS, "average", Average)
    monkeypatch.setitem(POSITIONS, "ramp", Ramp)
    monkeypatch.setitem(ROPES, "fading", Fading)
    monkeypatch.setitem(STEMS, "colors_and_flow", ColorsAndFlow)
    monkeypatch.setitem(POSITIONS, "fourier", Fourier)
    monkeypatch.setitem(ROPES, "backwards", Backwards)
    yield


def build(parts: str = "average", **options: Any) -> VideoTransformer:
    torch.manual_seed(0)
    return perturb(VideoTransformer(**SIZES, **{**SETS[parts], **options})).double().eval()


def draw_clip(frames: int = 4, side: int = 64, parts: str = "average") -> Tensor:
    torch.manual_seed(1)
    channels = 3 if parts == "average" else 5
    return torch.randn(2, channels, frames, side, side, dtype=torch.float64)


@torch.no_grad()
def test_its_parts_compute() -> None:
    model, clip = build(), draw_clip()
    colors = clip.unflatten(-1, (4, 16)).unflatten(-3, (4, 16)).mean(dim=(-1, -3))
    expected = model.embed.proj(colors.movedim(1, -1))
    torch.testing.assert_close(model.embed(clip), expected)
    for part in (model.encoders[0].pos_embed.direction, model.embed.proj.weight):
        before = model(clip)
        part.mul_(2)
        assert not torch.allclose(model(clip), before)


@with_each
@torch.no_grad()
def test_other_sizes(parts: str) -> None:
    assert build(parts)(draw_clip(6, 96, parts)).shape == (2, 24)


@pytest.mark.parametrize("parts", ["average", "two inputs"])
@torch.no_grad()
def test_streams_are_their_clips(parts: str) -> None:
    block = [dict(pattern="causal_time"), dict(pattern="space")]
    model, clip = build(parts, block=block, pool="none"), draw_clip(parts=parts)
    state, steps = None, []
    for frame in clip.split(1, dim=2):
        step, state = model.step(frame, state)
        steps.append(step)
    torch.testing.assert_close(torch.cat(steps, dim=1), model(clip))


@with_each
@torch.no_grad()
def test_still_tubelets_are_computed_once(parts: str) -> None:
    clip = draw_clip(parts=parts)
    clip[:, :, 1:] = clip[:, :, :1]
    exact = dict(positions="none", rope="fading")
    model = build(parts, **exact)
    torch.testing.assert_close(build(parts, **exact, static=0.1)(clip), model(clip))
    with_time = build(parts, static=0.1)
    assert rule_of(with_time).inexact and with_time(clip).shape == (2, 24)


@with_each
@torch.no_grad()
def test_tokens_are_left_out(parts: str) -> None:
    model, clip = build(parts), draw_clip(parts=parts)
    order = Places(torch.randperm(64).expand(2, -1), (4, 4, 4))
    torch.testing.assert_close(model(clip, kept=order), model(clip))
    frames = Places(torch.randperm(16).expand(2, -1), (4, 4))
    torch.testing.assert_close(model(clip, kept=frames), model(clip))
    assert build(parts, token_keep=0.5).train()(clip).shape == (2, 24)


@pytest.mark.parametrize("init", ["timm", "flax"])
def test_initializations(init: str) -> None:
    model = VideoTransformer(**SIZES, **PARTS, init=init)
    weight = model.embed.proj.weight
    assert (weight.std() < 0.05) == (init == "timm")  # flax: the stem's own


@with_each
@torch.no_grad()
def test_inference_export_and_explanation(parts: str) -> None:
    model, clip = build(parts), draw_clip(parts=parts)
    torch.testing.assert_close(optimize_for_inference(model)(clip), model(clip))
    exported = torch.export.export(model, (clip,), strict=False).module()
    torch.testing.assert_close(exported(clip), model(clip))
    shares = rollout(model, clip)
    total = shares.tokens.sum(dim=(1, 2, 3)) + shares.cls
    torch.testing.assert_close(total, torch.ones(2).double())


@with_each
def test_training(parts: str) -> None:
    clip, results = draw_clip(parts=parts), []
    for change in (lambda model: None, optimize_for_training):
        model = build(parts, with_cp=True).train()
        change(model)
        model(clip).square().sum().backward()
        results.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*results)
    assert all(grad.any() for grad in results[0])


@with_each
def test_masked_pretraining(parts: str) -> None:
    pretraining = MaskedPretraining(VideoTransformer(**SIZES, **SETS[parts]))
    loss = pretraining(draw_clip(parts=parts).float()[:, None], mode="loss")["loss_pixels"]
    loss.backward()
    assert loss.isfinite()
    assert all(weight.grad.any() for weight in pretraining.backbone.embed.parameters())


def test_positions_cannot_read_tokens_that_may_be_left_out() -> None:
    seen = []

    class Curious(Ramp):
        def forward(self, size: tuple, like: Tensor, cls: Any = None, state: Any = None) -> tuple:
            seen.append((size, like.shape, like.dtype))
            return super().forward(size, like, cls, state)

    POSITIONS["curious"] = Curious
    try:
        model, clip = build(positions="curious"), draw_clip()
        model(clip)
        model(clip, kept=Places(torch.arange(5).expand(2, -1), (4, 4, 4)))
    finally:
        del POSITIONS["curious"]
    assert seen == [((4, 4, 4), (0, 24), torch.float64)] * 2


def test_image_weights_for_another_stem_are_refused(tmp_path: Path) -> None:
    image = VideoTransformer(**{**SIZES, "clip_len": 1}, stem=dict(tubelet=(1, 16, 16)))
    file = tmp_path / "image.pth"
    torch.save({f"backbone.{name}": value for name, value in image.state_dict().items()}, file)
    model = VideoTransformer(**SIZES, stem=PARTS["stem"], init_from=str(file))
    with pytest.raises(ValueError, match="embed.proj.weight") as error:
        model.init_weights()
    assert "\n" not in str(error.value)


def test_overlapping_tubelets_rule_out_what_needs_single_ones() -> None:
    class Wide(Average):
        def __init__(self, dim: int) -> None:
            super().__init__(dim, (2, 16, 16))
            self.stride = (1, 16, 16)

        def embed(self, clip: Tensor) -> Tensor:
            colors = F.avg_pool3d(clip, self.tubelet, self.stride)
            return self.proj(colors.movedim(1, -1))

    STEMS["wide"] = Wide
    try:
        model = build(stem=dict(type="wide"))
        assert model.grid == (3, 4, 4) and model(draw_clip()).shape == (2, 24)
        with pytest.raises(ValueError, match="tubelets overlap or have padding"):
            model.token_keep = 0.5
        with pytest.raises(ValueError, match="cannot run frame by frame: tubelets overlap in time"):
            model.step(draw_clip())
    finally:
        del STEMS["wide"]


def test_unknown_stems_and_options_are_named() -> None:
    with pytest.raises(KeyError, match="no stem named 'averages'; did you mean average"):
        build(stem=dict(type="averages", tubelet=(1, 16, 16)))
    with pytest.raises(ValueError, match="stem average has no option stride; its options are"):
        build(stem=dict(type="average", tubelet=(1, 16, 16), stride=(1, 8, 8)))
    with pytest.raises(ValueError, match="stem tubelets needs the option tubelet"):
        build(stem=dict())
