"""What the weights of an image model do not tell: refused where it is certain, else said."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file

from mmvidformer.checkpoints import init_from_image
from mmvidformer.checkpoints.timm_models import from_timm
from mmvidformer.models import TimeSformer, VideoTransformer

SIZES = dict(embed_dim=48, depth=2, num_heads=3, img_size=64)
PLAIN = dict(
    arch=dict(embed_dims=48, depth=2, num_heads=3),
    img_size=64,
    clip_len=1,
    cls="mean",
    norm="layer",
)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], tuple[Any, Path]]:
    """Create a small model of timm, and write its weights alone."""

    def save(name: str) -> tuple[Any, Path]:
        if not timm.is_model(name):
            pytest.skip("an older timm lacks it")
        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=0, **SIZES).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.2)
        torch.save(model.state_dict(), tmp_path / "vit.pth")
        return model, tmp_path / "vit.pth"

    return save


@pytest.mark.parametrize(
    ("name", "reason", "options"),
    [
        ("vit_small_patch16_rope_224", "no table of positions", dict(layer_scale=1.0)),
        ("vit_small_patch16_rope_ape_224", "models with rotary positions", dict(layer_scale=1.0)),
        ("vit_small_patch16_dinov3", "no table", dict(layer_scale=1.0, registers=4)),
        ("eva02_tiny_patch14_224", "EVA-02", dict(mlp="swiglu", stem=dict(tubelet=(1, 14, 14)))),
        ("vit_pe_core_tiny_patch16_384", "Perception Encoder", dict(norm_pre=True)),
        ("vit_pe_spatial_tiny_patch16_512", "Perception Encoder", dict(norm_pre=True)),
    ],
)
def test_rotary_positions_of_a_file_are_refused_by_models_without(
    name: str, reason: str, options: dict, saved: Callable
) -> None:
    _, path = saved(name)
    model = VideoTransformer(**{**PLAIN, **options})
    with pytest.raises(ValueError, match=f"{reason}.*rope=None; arch='timm:NAME' with init_from="):
        init_from_image(model, path)


@pytest.mark.parametrize(
    ("name", "start", "absent", "reason"),
    [
        ("vit_small_patch16_dinov3", "backbone.", "^$", "match none of the formats"),
        ("vit_small_patch16_dinov3", "teacher.backbone.", "^$", "match none of the formats"),
        ("vit_small_patch16_dinov3", "", "gamma|reg_token", "no table of positions"),
        ("vit_tiny_patch16_dinov3_qkvb.eupe_lvd1689m", "model.", "^$", "match none"),
        ("vit_tiny_patch16_dinov3_qkvb.eupe_lvd1689m", "", "reg_token", "no table of positions"),
        ("vit_base_patch14_reg1_tipsv2", "model.", "^$", "match none of the formats"),
        ("vit_base_patch16_siglip_224.v2_webli", "visual.trunk.", "^$", "match none"),
        ("vit_pe_core_tiny_patch16_384", "visual.", "^$", "match none of the formats"),
        ("vit_pe_spatial_tiny_patch16_512", "module.", "^$", "Perception Encoder"),
        ("vit_pe_lang_large_patch14_448", "", "norm_pre", "models with rotary positions"),
    ],
)
def test_files_with_hidden_names_are_taken_for_nothing_else(
    name: str, start: str, absent: str, reason: str, saved: Callable
) -> None:
    _, path = saved(name)
    state = torch.load(path, weights_only=True)
    torch.save({f"{start}{n}": x for n, x in state.items() if not re.search(absent, n)}, path)
    with pytest.raises(ValueError, match=reason):
        init_from_image(VideoTransformer(**PLAIN), path)


@torch.no_grad()
def test_rotary_positions_of_a_file_are_read_by_models_that_state_them(
    saved: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    image, path = saved("vit_small_patch16_dinov3")
    norm = dict(type="layer", eps=1e-5)
    options = dict(rope="dinov3", positions="none", layer_scale=1.0, registers=4, norm=norm)
    model = VideoTransformer(**{**PLAIN, **options}, qkv_bias=False).eval()
    init_from_image(model, path)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    pixels = torch.randn(2, 3, 64, 64)
    places = model.forward_features(pixels[:, :, None]).places.flatten(1, 3)
    expected = image.forward_features(pixels)[:, 5:]
    torch.testing.assert_close(places, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "vit_pe_core_tiny_patch16_384",
        "vit_pe_lang_large_patch14_448",
        "vit_pe_spatial_tiny_patch16_512",
        "vit_base_patch14_reg1_tipsv2",
        "vit_tiny_patch16_dinov3_qkvb.eupe_lvd1689m",
        "vit_so400m_patch14_siglip_224.v2_webli",
        "vit_base_patch16_siglip_gap_256.v2_webli",
        "vit_small_plus_patch16_dinov3",
    ],
)
@torch.no_grad()
def test_a_name_tells_what_a_file_does_not(
    name: str, saved: Callable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Features of a start from a file of weights are timm's."""
    image, path = saved(name)
    real = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda *args, **named: real(*args, **named, **SIZES))
    model = VideoTransformer(f"timm:{name}", clip_len=1, img_size=64, init_from=str(path))
    model.init_weights()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    pixels = torch.randn(2, 3, 64, 64)
    places = model.eval().forward_features(pixels[:, :, None]).places.flatten(1, 3)
    expected = image.fc_norm(image.forward_features(pixels))[:, image.num_prefix_tokens :]
    assert expected.std() > 0.1
    torch.testing.assert_close(model.fc_norm(places), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "doubt", "options"),
    [
        ("vit_base_patch16_clip_quickgelu_224", "QuickGELU", dict(norm_pre=True)),
        ("vit_base_patch16_clip_224", "QuickGELU", dict(norm_pre=True)),
        ("eva02_enormous_patch14_clip_224", "norms after", dict(stem=dict(tubelet=(1, 14, 14)))),
        ("vit_base_patch16_rpn_224", "norms after the attention", dict(cls=None, pool="mean")),
    ],
)
def test_what_a_file_may_have_is_said_in_a_line(
    name: str, doubt: str, options: dict, saved: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    image, path = saved(name)
    hidden = image.blocks[0].mlp.fc2.in_features
    arch = {**PLAIN["arch"], "mlp_ratio": hidden / 48}
    norm = {"fc_norm": "layer"} if "fc_norm.weight" in image.state_dict() else {}
    init_from_image(VideoTransformer(**{**PLAIN, **options, **norm, "arch": arch}), path)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "the weights do not tell" in warning.getMessage() and doubt in warning.getMessage()


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit3_small_patch16_224"])
def test_plain_files_are_read_without_a_word(
    name: str, saved: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    _, path = saved(name)
    init_from_image(VideoTransformer(**PLAIN), path)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_folder_of_the_hub_names_its_model(saved: Callable, tmp_path: Path) -> None:
    """Its config.json has the name of timm's model: all settings are known."""
    image, _ = saved("vit_small_patch16_dinov3")
    six_heads = {**PLAIN, "arch": {**PLAIN["arch"], "num_heads": 6}}
    save_file(image.state_dict(), tmp_path / "model.safetensors")
    config = {"architecture": "vit_small_patch16_dinov3", "num_features": 48}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = VideoTransformer(**PLAIN, layer_scale=1.0, registers=4)
    with pytest.raises(ValueError, match="number of heads of the model is 3, of .* 6"):
        init_from_image(model, tmp_path)
    with pytest.raises(ValueError, match="it is vit_small_patch16_dinov3, with rotary positions"):
        init_from_image(VideoTransformer(**six_heads, layer_scale=1.0, registers=4), tmp_path)
    config["architecture"] = "eva02_base_patch16_clip_224"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="blocks.0.attn.norm is a LayerNorm, not Identity"):
        init_from_image(model, tmp_path)


def test_official_names_of_dinov2_are_read(saved: Callable) -> None:
    """A token of masked places, registers by another name, and a position of the class token."""
    image, _ = saved("vit_small_patch14_reg4_dinov2")
    state = image.state_dict()
    official = {name: value for name, value in state.items() if name != "reg_token"}
    official |= {"register_tokens": state["reg_token"], "mask_token": torch.zeros(1, 48)}
    official["pos_embed"] = torch.cat([torch.zeros(1, 1, 48), state["pos_embed"]], dim=1)
    found, expected = from_timm(official).state, from_timm(state).state
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_an_epsilon_or_kind_of_the_last_norm_is_not_guessed(saved: Callable) -> None:
    """Layer norms have biases, RMS norms none; a bias of zeros would pass for either."""
    _, path = saved("test_vit4")
    options = dict(norm="rms", cls="mean", layer_scale=1.0, fc_norm="layer", pool="mean")
    with pytest.raises(ValueError, match="bias of fc_norm of the model is True, of .* False"):
        init_from_image(VideoTransformer(**{**PLAIN, **options, "arch": ARCH_4}), path)


ARCH_4 = dict(embed_dims=48, depth=2, num_heads=3, mlp_ratio=3)


def layered(**options: Any) -> Any:
    model = TimeSformer(
        dict(embed_dims=32, depth=2, num_heads=2), img_size=32, clip_len=4, **options
    ).eval()
    for name, parameter in model.named_parameters():
        if "gamma" in name:
            torch.nn.init.uniform_(parameter, 0.2, 1.5)
        else:
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def without_fc(**options: Any) -> Any:
    block = [dict(pattern="time", cls="skip"), dict(pattern="space")]
    return layered(block=block, **options)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lambda: layered(layer_scale=0.5), layered),
        (lambda: layered(layer_scale=0.5), without_fc),
        (layered, without_fc),
        (without_fc, layered),
        (lambda: without_fc(layer_scale=0.5), layered),
        (layered, lambda: layered(layer_scale=0.5)),
    ],
    ids=["scale-fc", "scale-proj", "fc-proj", "proj-fc", "scale_proj-fc", "fc-scale"],
)
@torch.no_grad()
def test_layers_after_attention_are_folded_in_their_order(
    source: Callable, target: Callable, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    first, second = source(), target()
    state = {f"backbone.{name}": value for name, value in first.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "source.pth")
    init_from_image(second, tmp_path / "source.pth")
    clip = torch.randn(2, 3, 4, 32, 32)
    torch.testing.assert_close(second(clip), first(clip), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_gate_is_folded_into_its_layer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    space = dict(pattern="space")
    first = layered(block=[dict(pattern="time", cls="skip", fc="gated"), space], layer_scale=0.5)
    state = {f"backbone.{name}": value for name, value in first.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "source.pth")
    clip = torch.randn(2, 3, 4, 32, 32)
    for second in (layered(), without_fc()):
        init_from_image(second, tmp_path / "source.pth")
        torch.testing.assert_close(second(clip), first(clip), atol=1e-4, rtol=1e-4)
