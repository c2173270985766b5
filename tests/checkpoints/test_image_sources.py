"""Other starts than a file of timm's: videos' models, timm by name, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import nn

from mmvidformer import get_config
from mmvidformer.checkpoints import init_from_image
from mmvidformer.layers import resize_positions
from mmvidformer.models import VideoTransformer, ViViT
from mmvidformer.registry import MODELS
from tests.checkpoints.tiny_vivit import ARCH, vivit
from tests.web_server import Web


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


def test_timm_from_the_hub(tmp_path: Path, web: Web) -> None:
    """By timm's own names, of a repository that timm wrote, whose config says what model it is."""
    sizes = dict(embed_dim=32, depth=2, num_heads=2, img_size=32)
    image = timm.create_model("vit_tiny_patch16_224", **sizes)
    folder = tmp_path / "repository"
    timm.models.save_for_hf(image, folder, model_args=sizes, safe_serialization=True)
    web.add_repository("org/tiny", folder)
    model = VideoTransformer("timm:hf_hub:org/tiny", clip_len=1, img_size=32)
    model.init_weights()
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    expected = image.eval().forward_features(pixels)[:, 0]
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(pixels[:, :, None]), expected)
    model = vivit("spacetime", init_from=dict(source="timm:hf_hub:org/none"))
    with pytest.raises(OSError, match="timm:hf_hub:org/none cannot be fetched: .*404"):
        model.init_weights()


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


@pytest.mark.parametrize("option", ["embed", "positions", "temporal", "cls_token"])
def test_unknown_options(option: str, image_file: Path) -> None:
    with pytest.raises(KeyError, match=f"no {option} named 'odd'; choose from"):
        init_from_image(vivit("spacetime"), image_file, **{option: "odd"})
