"""DINOv3 from files by HuggingFace's names and the official ones, against its features there."""

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models.eva import checkpoint_filter_fn
from torch import Tensor, nn

from mmvidformer.checkpoints.convert import read_model
from mmvidformer.errors import UserError
from mmvidformer.models import VideoTransformer

dinov3_vit = pytest.importorskip("transformers.models.dinov3_vit")  # not in 4.40
DINOv3ViTConfig = dinov3_vit.DINOv3ViTConfig
DINOv3ViTModel = dinov3_vit.DINOv3ViTModel

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, patch_size=16)
NAMES = (
    ("embeddings.patch_embeddings.", "patch_embed.proj."),
    ("embeddings.register_tokens", "storage_tokens"),
    ("embeddings.", ""),
    ("model.layer.", "blocks."),
    (".attention.o_proj.", ".attn.proj."),
    (".layer_scale1.lambda1", ".ls1.gamma"),
    (".layer_scale2.lambda1", ".ls2.gamma"),
)


@pytest.fixture(params=[False, True], ids=["plain", "gated"])
def model(request: pytest.FixtureRequest) -> DINOv3ViTModel:
    torch.manual_seed(0)
    act = "silu" if request.param else "gelu"
    options = dict(num_register_tokens=3, use_gated_mlp=request.param, hidden_act=act)
    made = DINOv3ViTModel(DINOv3ViTConfig(**SIZES, intermediate_size=48, **options)).eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


def official_names(model: DINOv3ViTModel) -> dict[str, Tensor]:
    """Weights as the official code saves them: with a masked bias of the keys, and buffers."""
    gated = model.config.use_gated_mlp
    mlp = (
        ("gate_proj w1", "up_proj w2", "down_proj w3")
        if gated
        else ("up_proj fc1", "down_proj fc2")
    )
    state, parts = {}, {}
    for name, tensor in model.state_dict().items():
        for old, new in (*NAMES, *(pair.split() for pair in mlp)):
            name = name.replace(old, new)
        block, _, part = name.partition(".attention.")
        if part:
            parts[block, part] = tensor
        else:
            state[name] = tensor
    for block in {block for block, _ in parts}:
        weights = [parts[block, f"{name}_proj.weight"] for name in "qkv"]
        masked = torch.full((32,), 7.0)
        biases = parts[block, "q_proj.bias"], masked, parts[block, "v_proj.bias"]
        state[f"{block}.attn.qkv.weight"] = torch.cat(weights)
        state[f"{block}.attn.qkv.bias"] = torch.cat(biases)
        mask = torch.tensor([1, torch.nan, 1]).repeat_interleave(32)
        state[f"{block}.attn.qkv.bias_mask"] = mask
    state["rope_embed.periods"] = 100 ** (torch.arange(4) / 4)  # heads of 16 channels
    return state


def expected_of(model: DINOv3ViTModel, pixels: Tensor) -> Tensor:
    with torch.no_grad():
        return model(pixels).last_hidden_state


def started(source: object) -> VideoTransformer:
    """The model that the file's settings make."""
    made = VideoTransformer(
        arch=dict(embed_dims=32, depth=2, num_heads=2, mlp_ratio=1.5),
        **dict(clip_len=1, img_size=(48, 80), stem=dict(tubelet=(1, 16, 16))),
        **dict(cls="mean", qkv_bias="qv", layer_scale=1.0),
        **read_model(source)[1].settings,
        init_from=dict(source=str(source)),
    )
    made.init_weights()
    return made.eval()


@pytest.mark.parametrize("names", ["official", "folder"])
def test_features_are_those_of_huggingface(model, names, tmp_path) -> None:
    if names == "official":
        source = tmp_path / "dinov3.pth"
        torch.save(official_names(model), source)
    else:
        source = tmp_path / "folder"
        model.save_pretrained(source)
    pixels = torch.randn(2, 3, 48, 80)
    with torch.no_grad():
        tokens = started(source).forward_features(pixels[:, :, None])
    found = torch.cat([tokens.prefix, tokens.places.flatten(1, 3)], dim=1)
    torch.testing.assert_close(found, expected_of(model, pixels), atol=1e-4, rtol=1e-4)


def test_official_names_are_those_that_timm_reads(model) -> None:
    gated = model.config.use_gated_mlp
    name = "vit_small_plus_patch16_dinov3_qkvb" if gated else "vit_small_patch16_dinov3_qkvb"
    options = dict(embed_dim=32, depth=2, num_heads=2, mlp_ratio=1.5, num_reg_tokens=3)
    theirs = timm.create_model(name, num_classes=0, **options)
    converted = checkpoint_filter_fn(official_names(model), theirs)
    assert converted.keys() == theirs.state_dict().keys() - {"rope.periods"}


def test_an_activation_that_does_not_fit_is_refused(model, tmp_path) -> None:
    model.config.hidden_act = "relu"
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="hidden_act must be silu in a gated MLP, else gelu"):
        read_model(tmp_path)


def test_a_file_without_config_has_the_published_settings(model, tmp_path) -> None:
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    backbone = read_model(tmp_path / "model.safetensors")[1].settings
    assert backbone["rope"] == dict(type="dinov3", base=100.0)
    assert backbone["registers"] == 3
