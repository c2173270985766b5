"""HuggingFace's image models: features, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from mmvidformer.checkpoints import convert_file, init_from_image, read_model
from mmvidformer.models import VideoTransformer

SIZES = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    mlp_ratio=2,
    image_size=32,
    patch_size=8,
)
ARCH = dict(embed_dims=32, depth=2, num_heads=4, mlp_ratio=2)
WITH_CLS = dict(cls="mean", positions="joint")
EPS_12 = dict(norm=dict(type="layer", eps=1e-12))
CLIP = dict(
    norm=dict(type="layer", eps=1e-5), norm_pre=True, mlp=dict(type="mlp", act="quick_gelu")
)
SWIGLU = dict(mlp="swiglu", arch={**ARCH, "mlp_ratio": 1.5})
CASES = {
    "vit": ("ViTConfig", "ViTModel", {}, {**WITH_CLS, **EPS_12}),
    "vit_classifier": ("ViTConfig", "ViTForImageClassification", {}, {**WITH_CLS, **EPS_12}),
    "vit_without_bias": ("ViTConfig", "ViTModel", dict(qkv_bias=False), {**WITH_CLS, **EPS_12}),
    "mae": ("ViTMAEConfig", "ViTMAEForPreTraining", {}, {**WITH_CLS, **EPS_12}),
    "msn": ("ViTMSNConfig", "ViTMSNModel", {}, WITH_CLS),
    "ijepa": ("IJepaConfig", "IJepaModel", {}, EPS_12),
    "dinov2": ("Dinov2Config", "Dinov2Model", {}, WITH_CLS),
    "dinov2_swiglu": ("Dinov2Config", "Dinov2Model", dict(use_swiglu_ffn=True), SWIGLU | WITH_CLS),
    "registers": (
        "Dinov2WithRegistersConfig",
        "Dinov2WithRegistersModel",
        {},
        {**WITH_CLS, "registers": 4},
    ),
    "clip": ("CLIPVisionConfig", "CLIPVisionModel", {}, {**WITH_CLS, **CLIP}),
    "siglip": (
        "SiglipVisionConfig",
        "SiglipVisionModel",
        {},
        dict(mlp=dict(type="mlp", act="gelu_tanh")),
    ),
}


def image_model(case: str) -> tuple[Any, dict]:
    config, model, options, ours = CASES[case]
    torch.manual_seed(0)
    if not hasattr(transformers, model):
        pytest.skip("an older transformers lacks it")
    theirs = getattr(transformers, model)(getattr(transformers, config)(**SIZES, **options)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.2)
    return theirs, dict(arch=ARCH, img_size=32, stem=dict(tubelet=(1, 8, 8)), clip_len=1) | ours


def tokens_of(theirs: Any, pixels: Tensor) -> Tensor:
    """Normalized tokens (B, P + N, D) of an image model with or without a head."""
    model = getattr(theirs, "base_model", theirs)
    if type(theirs).__name__ == "ViTMAEForPreTraining":
        model.config.mask_ratio = 0.0
        noise = torch.arange(16.0).expand(len(pixels), -1)  # the tokens stay in order
        return model(pixels, noise=noise).last_hidden_state
    tokens = model(pixels).last_hidden_state
    if type(model).__name__ == "CLIPVisionModel":  # which normalizes the class token alone
        tokens = getattr(model, "vision_model", model).post_layernorm(tokens)
    return tokens


@pytest.mark.parametrize("layer_scale", [1.0, None], ids=["kept", "folded"])
@pytest.mark.parametrize("alone", [False, True], ids=["folder", "file"])
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_features_are_those_of_transformers(
    case: str, alone: bool, layer_scale: float | None, tmp_path: Path, caplog
) -> None:
    theirs, options = image_model(case)
    theirs.save_pretrained(tmp_path)
    source = tmp_path / "model.safetensors" if alone else tmp_path
    model = VideoTransformer(**options, layer_scale=layer_scale).eval()
    init_from_image(model, source)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    pixels = torch.randn(2, 3, 32, 32)
    tokens = model.forward_features(pixels[:, :, None])
    ours = torch.cat([tokens.prefix, tokens.places.flatten(1, 3)], dim=1)
    torch.testing.assert_close(ours, tokens_of(theirs, pixels), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_names_of_modules_are_read_too(tmp_path: Path) -> None:
    """As torch.save of a state dict stores them with transformers 5."""
    for case in ("vit", "dinov2", "registers"):
        theirs, _ = image_model(case)
        theirs.save_pretrained(tmp_path)
        save_file(theirs.state_dict(), tmp_path / "modules.safetensors")
        saved = read_model(tmp_path / "model.safetensors")[1].state
        modules = read_model(tmp_path / "modules.safetensors")[1].state
        assert saved.keys() == modules.keys()
        assert all(torch.equal(saved[name], modules[name]) for name in saved)


@torch.no_grad()
def test_a_whole_clip_is_read_for_its_images(tmp_path: Path) -> None:
    vision = SIZES | dict(hidden_act="gelu")
    text = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)
    config = transformers.CLIPConfig(vision_config=vision, text_config=text)
    theirs = transformers.CLIPModel(config).eval()
    theirs.save_pretrained(tmp_path)
    result = read_model(tmp_path)[1]
    assert result.settings["mlp"] == dict(type="mlp", act="gelu")
    assert result.num_heads == 4
    assert any(name.startswith("text_model.") for name in result.ignored)
    kernel = theirs.vision_model.embeddings.patch_embedding.weight
    assert torch.equal(result.state["backbone.embed.proj.weight"][:, :, 0], kernel)


def test_settings_of_the_folder_are_compared(tmp_path: Path, caplog) -> None:
    theirs, options = image_model("clip")
    theirs.save_pretrained(tmp_path)
    init_from_image(VideoTransformer(**{**options, "mlp": "mlp"}), tmp_path)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.getMessage().endswith("which needs mlp=dict(type='mlp', act='quick_gelu')")
    with pytest.raises(ValueError, match="number of heads of the model is 2, of .* 4"):
        init_from_image(VideoTransformer(**{**options, "arch": {**ARCH, "num_heads": 2}}), tmp_path)


def test_relative_positions_are_refused(tmp_path: Path) -> None:
    transformers.BeitModel(transformers.BeitConfig(**SIZES)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="missing .*position_embeddings.*unknown .*lambda_1"):
        read_model(tmp_path)


@pytest.mark.parametrize("case", ["vit", "clip"])
def test_an_image_model_is_not_converted(case: str, tmp_path: Path) -> None:
    theirs, _ = image_model(case)
    theirs.save_pretrained(tmp_path / "theirs")
    with pytest.raises(ValueError, match="is an image model .* by its argument init_from="):
        convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    assert not (tmp_path / "ours.pth").exists()
