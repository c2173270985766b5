"""A stem, positions and rotary positions of a user's: everything works with them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers import POSITIONS, ROPES, STEMS, Places, Positions, RotaryPositions, Stem
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.masked import MaskedPretraining
from mmvidformer.visualization import rollout
from tests.models.tiny import perturb


class Average(Stem):
    """The mean color of each tubelet, through a linear layer."""

    def __init__(self, dim: int, tubelet: Any, in_channels: int = 3) -> None:
        super().__init__(in_channels, tubelet)
        self.proj = nn.Linear(in_channels, dim)

    def embed(self, clip: Tensor) -> Tensor:
        """Map (B, C, T', H', W') to (B, T, H, W, D)."""
        return self.proj(F.avg_pool3d(clip, self.tubelet).movedim(1, -1))


class Ramp(Positions):
    """A learned direction, times the number of the frame."""

    tables = ("t",)

    def __init__(self, dim: int, size: tuple, cls: bool) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.zeros(dim))

    def forward(self, grid: Tensor, cls: Any = None, state: Any = None) -> tuple:
        """Add them."""
        start = 0 if state is None else state.steps
        places = torch.arange(grid.shape[1], device=grid.device) + start
        return grid + places.to(grid)[:, None, None, None] * self.direction, cls


class Fading(RotaryPositions):
    """Queries fade with the row: no rotation, but a function of the place."""

    axes = "h"

    def __init__(self, head_dim: int) -> None:
        super().__init__()

    def table(self, grid: Tensor, start: Any = 0) -> Tensor:
        """Return a factor for each place, and nothing."""
        rows = torch.linspace(1, 0.5, grid.shape[2]).to(grid)[:, None, None]
        return F.pad(rows.expand(1, *grid.shape[1:4], 1), (0, 1))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, context: Any) -> tuple:
        """Multiply queries."""
        return q * context.rope[:, :, None, :1], k, v


SIZES: dict = dict(arch=dict(embed_dims=24, depth=2, num_heads=2), img_size=64, clip_len=4)
PARTS: dict = dict(stem=dict(type="average", tubelet=(1, 16, 16)), positions="ramp", rope="fading")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(STEMS, "average", Average)
    monkeypatch.setitem(POSITIONS, "ramp", Ramp)
    monkeypatch.setitem(ROPES, "fading", Fading)
    yield


def build(**options: Any) -> VideoTransformer:
    torch.manual_seed(0)
    return perturb(VideoTransformer(**SIZES, **{**PARTS, **options})).double().eval()


def draw_clip(frames: int = 4, side: int = 64) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 3, frames, side, side, dtype=torch.float64)


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


@torch.no_grad()
def test_other_sizes() -> None:
    assert build()(draw_clip(6, 96)).shape == (2, 24)


@torch.no_grad()
def test_streams_are_their_clips() -> None:
    block = [dict(pattern="causal_time"), dict(pattern="space")]
    model, clip, state, steps = build(block=block, pool="none"), draw_clip(), None, []
    for frame in clip.split(1, dim=2):
        step, state = model.step(frame, state)
        steps.append(step)
    torch.testing.assert_close(torch.cat(steps, dim=1), model(clip))


@torch.no_grad()
def test_still_tubelets_are_computed_once() -> None:
    clip = draw_clip()
    clip[:, :, 1:] = clip[:, :, :1]
    exact = dict(positions="none")
    model = build(**exact)
    torch.testing.assert_close(build(**exact, static=0.1)(clip), model(clip))
    with_time = build(static=0.1)
    assert with_time(clip).shape == (2, 24)


@torch.no_grad()
def test_tokens_are_left_out() -> None:
    model, clip = build(), draw_clip()
    order = Places(torch.randperm(64).expand(2, -1), (4, 4, 4))
    torch.testing.assert_close(model(clip, kept=order), model(clip))
    assert build(token_keep=0.5).train()(clip).shape == (2, 24)


@pytest.mark.parametrize("init", ["timm", "flax"])
def test_initializations(init: str) -> None:
    model = VideoTransformer(**SIZES, **PARTS, init=init)
    weight = model.embed.proj.weight
    assert (weight.std() < 0.05) == (init == "timm")  # flax: the stem's own


@torch.no_grad()
def test_inference_export_and_explanation() -> None:
    model, clip = build(), draw_clip()
    torch.testing.assert_close(optimize_for_inference(model)(clip), model(clip))
    exported = torch.export.export(model, (clip,)).module()
    torch.testing.assert_close(exported(clip), model(clip))
    shares = rollout(model, clip)
    torch.testing.assert_close(shares.tokens.sum(dim=(1, 2, 3)), torch.ones(2).double())


def test_masked_pretraining() -> None:
    pretraining = MaskedPretraining(VideoTransformer(**SIZES, **PARTS))
    loss = pretraining(draw_clip().float()[:, None], mode="loss")["loss_pixels"]
    loss.backward()
    assert loss.isfinite() and pretraining.backbone.embed.proj.weight.grad.any()


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
