"""A video model initialized from an image model computes its features for each frame."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mmvidformer.checkpoints import init_from_image
from mmvidformer.layers import resize_positions
from mmvidformer.layers.tokens import Tokens
from mmvidformer.models import VideoTransformer
from tests.checkpoints.tiny_vivit import ARCH, vivit


@pytest.fixture
def clip() -> Tensor:
    return torch.randn(2, 3, 4, 32, 32, generator=torch.Generator().manual_seed(2))


def frame_tokens(model: nn.Module, frames: Tensor) -> Tensor:
    """Tokens of timm's ViT, without class token: (B, T, H, W, D)."""
    with torch.no_grad():
        tokens = model.forward_features(frames.transpose(1, 2).flatten(0, 1))
    skip = tokens.shape[1] - 16
    return tokens[:, skip:].reshape(len(frames), -1, 4, 4, 32)


@pytest.mark.parametrize("embed", ["central_frame", "inflate"])
def test_static_clip_is_embedded_as_its_image(
    embed: str, image_model: nn.Module, image_file: Path, clip: Tensor
) -> None:
    model = vivit("spacetime")
    init_from_image(model, image_file, embed=embed)
    still = clip[:, :, :1].expand(-1, -1, 4, -1, -1)
    with torch.no_grad():
        tokens = model.embed(still)
        patches = image_model.patch_embed(clip[:, :, 0]).reshape(2, 1, 4, 4, 32)
    torch.testing.assert_close(tokens, patches.expand(-1, 2, -1, -1, -1), atol=1e-5, rtol=1e-5)


def test_central_frame_is_the_later_one_of_two(image_file: Path, clip: Tensor) -> None:
    model = vivit("spacetime")
    init_from_image(model, image_file)
    kernel = model.embed.proj.weight
    assert not kernel[:, :, 0].any() and kernel[:, :, 1].any()


@pytest.mark.parametrize("frames", [1, 2, 4])
@pytest.mark.parametrize("scheme", ["factorized_self_attention", "factorized_self_attention_ts"])
def test_model_3_starts_as_the_image_model_on_each_frame(
    scheme: str, frames: int, image_vit: Callable, tmp_path: Path, clip: Tensor
) -> None:
    image = image_vit(class_token=False, global_pool="avg", fc_norm=False)
    torch.save(image.state_dict(), tmp_path / "vit.pth")
    model = vivit(scheme, tubelet=(frames, 8, 8))
    init_from_image(model, tmp_path / "vit.pth", temporal="zero")
    with torch.no_grad():
        grid = model.forward_features(clip).places
    expected = frame_tokens(image, clip[:, :, frames // 2 :: frames])
    torch.testing.assert_close(grid, expected, atol=1e-5, rtol=1e-5)


def test_temporal_attention_that_starts_at_zero_still_learns(
    image_file: Path, clip: Tensor
) -> None:
    model = vivit("factorized_self_attention")
    init_from_image(model, image_file)
    model(clip).square().sum().backward()
    proj = model.encoders[0].blocks[0].sublayers["time"].attn.proj
    assert not proj.weight.any() and proj.weight.grad.abs().max() > 0


@pytest.mark.parametrize("temporal", ["copy", "copy_with_norm"])
def test_copied_temporal_attention(temporal: str, image_model: nn.Module, image_file: Path) -> None:
    model = vivit("factorized_self_attention")
    init_from_image(model, image_file, temporal=temporal)
    image = image_model.blocks[1]
    for pattern in ("space", "time"):
        sublayer = model.encoders[0].blocks[1].sublayers[pattern]
        assert torch.equal(sublayer.attn.qkv.weight, image.attn.qkv.weight)
        assert torch.equal(sublayer.attn.proj.bias, image.attn.proj.bias)
    norm = model.encoders[0].blocks[1].sublayers["time"].norm.weight
    expected = image.norm1.weight if temporal == "copy_with_norm" else torch.ones(32)
    assert torch.equal(norm, expected)


TIMES = ["causal_time", dict(type="window", size=(2, 1, 1)), "time"]


@pytest.mark.parametrize("temporal", ["zero", "copy"])
def test_temporal_attention_of_any_pattern(
    temporal: str, image_model: nn.Module, image_file: Path
) -> None:
    """Also of a repeated pattern, whose name has a number."""
    block = [dict(pattern="space"), *(dict(pattern=one) for one in TIMES), dict(pattern="time")]
    model = VideoTransformer(
        ARCH, block=block, clip_len=4, img_size=32, stem=dict(tubelet=(1, 8, 8))
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    init_from_image(model, image_file, temporal=temporal)
    weight = image_model.blocks[0].attn.qkv.weight
    names = [*model.encoders[0].blocks[0].sublayers]
    assert names == ["space", "causal_time", "window", "time", "time_5"]
    for name in names:
        key = f"encoders.0.blocks.0.sublayers.{name}.attn.qkv.weight"
        kept = temporal == "zero" and name != "space"
        assert torch.equal(model.state_dict()[key], before[key] if kept else weight)


@pytest.mark.parametrize("frames", [1, 2])
def test_frame_features_of_model_2_are_the_image_models(
    frames: int, image_model: nn.Module, image_file: Path, clip: Tensor
) -> None:
    model = vivit("factorized_encoder", tubelet=(frames, 8, 8))
    before = {k: v.clone() for k, v in model.encoders[1].state_dict().items()}
    _, ignored, kept = init_from_image(model, image_file)
    with torch.no_grad():
        tokens = Tokens.of(model.embed(clip).flatten(0, 1)[:, None])
        cls = model.encoders[0](tokens).tensor[:, 0]
        seen = clip[:, :, frames // 2 :: frames]
        expected = image_model.forward_features(seen.transpose(1, 2).flatten(0, 1))[:, 0]
    torch.testing.assert_close(cls, expected, atol=1e-5, rtol=1e-5)

    after = model.encoders[1].state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert set(kept) == {f"encoders.1.{name}" for name in before}
    assert set(ignored) == {"head.weight", "head.bias"}


def test_model_without_class_token_drops_it(image_file: Path, image_model: nn.Module) -> None:
    model = vivit("factorized_dot_product")
    _, ignored, kept = init_from_image(model, image_file)
    assert {"encoders.0.cls_token", "encoders.0.pos_embed.cls"} <= set(ignored)
    assert kept == []
    weight = model.encoders[0].blocks[0].sublayers["time_space"].attn.qkv.weight
    assert torch.equal(weight, image_model.blocks[0].attn.qkv.weight)


def test_google_file_gives_what_timm_makes_of_it(
    google_arrays: Callable, image_vit: Callable, tmp_path: Path
) -> None:
    np.savez(tmp_path / "vit.npz", **google_arrays())
    reference = image_vit()
    reference.load_pretrained(tmp_path / "vit.npz")
    torch.save(reference.state_dict(), tmp_path / "vit.pth")
    models = [vivit("spacetime"), vivit("spacetime")]
    init_from_image(models[0], tmp_path / "vit.npz")
    init_from_image(models[1], tmp_path / "vit.pth")
    one, other = (model.state_dict() for model in models)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_positions_are_repeated_in_time(image_file: Path, image_model: nn.Module) -> None:
    model = vivit("spacetime")
    init_from_image(model, image_file)
    expected = image_model.pos_embed[:, 1:].reshape(1, 1, 4, 4, 32).expand(-1, 2, -1, -1, -1)
    assert torch.equal(model.encoders[0].pos_embed.thw, expected)
    assert torch.equal(model.encoders[0].pos_embed.cls, image_model.pos_embed[:, :1])


@pytest.mark.parametrize(("positions", "rule"), [("linear", "linear"), ("bicubic", "bicubic")])
def test_positions_of_another_resolution(
    positions: str, rule: str, image_file: Path, image_model: nn.Module
) -> None:
    model = vivit("spacetime", img_size=(40, 48))
    init_from_image(model, image_file, positions=positions)
    table = image_model.pos_embed.detach()[:, 1:].reshape(1, 1, 4, 4, 32)
    frame = resize_positions(table, (1, 5, 6), rule)
    expected = frame.expand(-1, 2, -1, -1, -1)
    torch.testing.assert_close(model.encoders[0].pos_embed.thw.detach(), expected)


def test_parts_left_at_random(image_file: Path) -> None:
    model = vivit("spacetime")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _, ignored, kept = init_from_image(model, image_file, embed="random")
    left = {"embed.proj.weight", "embed.proj.bias"}
    assert set(kept) == left
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in left)
