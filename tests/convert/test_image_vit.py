"""A video model initialized from an image model computes its features for each frame."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

from mmvidformer import get_config
from mmvidformer.convert import init_from_image
from mmvidformer.layers import resize_positions
from mmvidformer.models import VideoTransformer, ViViT
from mmvidformer.registry import MODELS

ARCH = dict(embed_dims=32, depth=2, num_heads=4)


def vivit(scheme: str, tubelet: tuple = (2, 8, 8), **options: object) -> ViViT:
    torch.manual_seed(1)
    sizes = dict(img_size=32, clip_len=4, stem=dict(tubelet=tubelet)) | options
    return ViViT(dict(ARCH), scheme, **sizes).eval()


@pytest.fixture
def image_model(image_vit: Callable) -> nn.Module:
    return image_vit()


@pytest.fixture
def image_file(image_model: nn.Module, tmp_path: Path) -> Path:
    torch.save(image_model.state_dict(), tmp_path / "vit.pth")
    return tmp_path / "vit.pth"


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
        grid = model.forward_features(clip)[0]
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


TIMES = ["causal_time", dict(type="dilated_time", dilation=2), "time"]


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
    assert names == ["space", "causal_time", "dilated_time", "time", "time_5"]
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
        grid = model.embed(clip).flatten(0, 1)[:, None]
        cls = model.encoders[0].normalize(model.encoders[0].run_blocks(grid))[1][:, 0]
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


@pytest.mark.parametrize(("positions", "rule"), [("tile", "linear"), ("bicubic", "bicubic")])
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


def test_own_checkpoint_of_another_scheme_length_and_head(tmp_path: Path) -> None:
    source = vivit("factorized_self_attention", img_size=48, clip_len=8)
    state = {f"backbone.{name}": value for name, value in source.state_dict().items()}
    state["cls_head.fc_cls.weight"] = torch.zeros(9, 32)
    torch.save({"state_dict": state}, tmp_path / "m3.pth")

    longer = vivit("factorized_self_attention_ts", clip_len=16)
    _, ignored, kept = init_from_image(longer, tmp_path / "m3.pth")
    assert kept == [] and ignored == ["cls_head.fc_cls.weight"]
    for name in ("blocks.1.sublayers.time.attn.qkv.weight", "blocks.0.mlp.fc1.bias"):
        assert torch.equal(
            longer.encoders[0].get_parameter(name), source.encoders[0].get_parameter(name)
        )
    table = resize_positions(source.encoders[0].pos_embed.thw.detach(), (8, 4, 4), "linear")
    torch.testing.assert_close(longer.encoders[0].pos_embed.thw.detach(), table)

    joint = vivit("spacetime", tubelet=(4, 8, 8))
    _, ignored, kept = init_from_image(joint, tmp_path / "m3.pth")
    space = source.encoders[0].blocks[0].sublayers["space"].attn.qkv.weight
    assert torch.equal(joint.encoders[0].blocks[0].sublayers["joint"].attn.qkv.weight, space)
    assert any("sublayers.time.attn" in name for name in ignored)
    assert set(kept) == {"encoders.0.cls_token"}
    assert not joint.encoders[0].pos_embed.cls.any()
    kernel = joint.embed.proj.weight
    torch.testing.assert_close(kernel[:, :, 2], source.embed.proj.weight.sum(2))


def test_fixed_positions_and_act_of_a_video_model_are_compared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No weights tell them; the file does."""
    sizes = dict(arch=ARCH, clip_len=4, img_size=32, stem=dict(tubelet=(2, 8, 8)))
    flat = dict(positions=dict(type="joint", fixed="flat"), mlp=dict(type="mlp", act="quick_gelu"))
    source = VideoTransformer(**sizes, **flat)
    state = {f"backbone.{name}": value for name, value in source.state_dict().items()}
    meta = {"backbone": {"type": "VideoTransformer", "arch": ARCH, **flat}}
    torch.save({"state_dict": state, "meta": meta}, tmp_path / "flat.pth")
    model = VideoTransformer(**sizes)
    init_from_image(model, tmp_path / "flat.pth")
    assert not model.encoders[0].pos_embed.thw.any()
    (found,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert found.getMessage().endswith(
        "which needs mlp=dict(type='mlp', act='quick_gelu'), "
        "positions=dict(type='joint', fixed='flat')"
    )
    caplog.clear()
    init_from_image(VideoTransformer(**sizes, **flat), tmp_path / "flat.pth")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_own_model_2_brings_its_second_encoder(tmp_path: Path) -> None:
    source = vivit("factorized_encoder")
    torch.save(source.state_dict(), tmp_path / "m2.pth")
    model = vivit("factorized_encoder", clip_len=8, img_size=48)
    nn.init.zeros_(model.encoders[1].norm.weight)
    assert init_from_image(model, tmp_path / "m2.pth")[2] == []
    assert torch.equal(model.encoders[1].norm.weight, source.encoders[1].norm.weight)
    with pytest.raises(ValueError, match="depth of the second encoder of the model is 2, of .* 4"):
        init_from_image(vivit("factorized_encoder", temporal_depth=2), tmp_path / "m2.pth")


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_other_norms_are_refused(norm: str, image_file: Path, tmp_path: Path) -> None:
    """Layer norms have biases; without them, weights of the one would pass for the other."""
    if norm == "layer":
        state = vivit("spacetime", norm="rms").state_dict()
        image_file = tmp_path / "rms.pth"
        torch.save({f"backbone.{name}": value for name, value in state.items()}, image_file)
    own = norm == "layer"
    with pytest.raises(ValueError, match=f"bias of norms of the model is {own}, of .* {not own}"):
        init_from_image(vivit("spacetime", norm=norm), image_file)


def test_timm_by_name(
    image_model: nn.Module, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        assert (name, pretrained, num_classes) == ("vit_tiny.some_tag", True, 0)
        image_model.reset_classifier(0)
        return image_model

    monkeypatch.setattr("timm.create_model", create_model)
    model = vivit("spacetime", init_from=dict(source="timm:vit_tiny.some_tag", embed="inflate"))
    with caplog.at_level("INFO", logger="mmvidformer"):
        model.init_weights()
    assert "ViViT from timm:vit_tiny.some_tag: 31 of 31 tensors" in caplog.text
    kernel = image_model.patch_embed.proj.weight / 2
    assert torch.equal(model.embed.proj.weight[:, :, 0], kernel)


@pytest.mark.parametrize("name", ["vivit_fe_k400", "vivit_l_fe_k400", "vivit_h_st_k400"])
def test_image_models_of_the_configs_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original ImageNet-21K models: all weights are used, norms have the same epsilon."""
    created, create = [], timm.create_model

    def without_download(model: str, pretrained: bool, **kwargs: object) -> nn.Module:
        created.append(create(model, pretrained=False, **kwargs))
        return created[-1]

    monkeypatch.setattr(timm, "create_model", without_download)
    cfg = get_config(name).model.backbone
    source = cfg.pop("init_from")["source"]
    assert source.endswith(".orig_in21k")
    with torch.device("meta"):
        model = MODELS.build(cfg)
        _, ignored, random = init_from_image(model, source)
    image = created[0]
    assert "cls_token" in image.state_dict() and ignored == []
    assert all(name.startswith("encoders.1.") for name in random)
    norms = [*image.modules(), *model.modules()]
    assert {norm.eps for norm in norms if isinstance(norm, nn.LayerNorm)} == {1e-6}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(depth=3), "depth of the model is 3, of .* 2"),
        (dict(embed_dims=48), r"embed.proj.weight has shape \(48, .*vit.pth \(32, "),
        (dict(mlp_ratio=2), r"0.mlp.fc1.weight has shape \(64, 32\), .* \(128, 32\)"),
    ],
)
def test_other_sizes_are_refused(options: dict, message: str, image_file: Path) -> None:
    model = ViViT(
        ARCH | options, "spacetime", img_size=32, clip_len=4, stem=dict(tubelet=(2, 8, 8))
    )
    with pytest.raises(ValueError, match=message):
        init_from_image(model, image_file)


def test_other_patches_and_heads_are_refused(google_arrays: Callable, tmp_path: Path) -> None:
    np.savez(tmp_path / "vit.npz", **google_arrays())
    with pytest.raises(ValueError, match=r"has shape \(32, 3, 2, 16, 16\), .* \(32, 3, 2, 8, 8\)"):
        init_from_image(vivit("spacetime", tubelet=(2, 16, 16)), tmp_path / "vit.npz")
    arch, stem = ARCH | dict(num_heads=2), dict(tubelet=(2, 8, 8))
    model = ViViT(arch, "spacetime", img_size=32, clip_len=4, stem=stem)
    with pytest.raises(ValueError, match="number of heads of the model is 2, of .* 4"):
        init_from_image(model, tmp_path / "vit.npz")


@pytest.mark.parametrize("option", ["embed", "positions", "temporal"])
def test_unknown_options(option: str, image_file: Path) -> None:
    with pytest.raises(KeyError, match=f"no {option} named 'odd'; choose from"):
        init_from_image(vivit("spacetime"), image_file, **{option: "odd"})
