"""Image models by timm name: the features of each family, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from mmvidformer.checkpoints import arguments_of
from mmvidformer.checkpoints.timm_models import from_timm
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT

SIZES = dict(embed_dim=48, depth=2, num_heads=3)
CLOSE = dict(atol=1e-5, rtol=1e-5)
NAMES = (
    "vit_base_patch16_224.augreg_in21k",
    "vit_base_patch16_224.mae",
    "deit3_base_patch16_224",
    "vit_base_patch14_dinov2",
    "vit_giant_patch14_dinov2",
    "vit_base_patch14_reg4_dinov2",
    "vit_base_patch16_dinov3",
    "vit_base_patch16_dinov3_qkvb",
    "vit_tiny_patch16_dinov3_qkvb.eupe_lvd1689m",
    "vit_base_patch14_reg1_tipsv2.webli",
    "vit_pe_core_base_patch16_224",
    "vit_pe_lang_large_patch14_448",
    "vit_pe_spatial_base_patch16_512",
    "vit_small_plus_patch16_dinov3",
    "vit_base_patch16_clip_224.openai",
    "vit_base_patch16_clip_quickgelu_224.openai",
    "vit_base_patch16_siglip_224",
    "vit_base_patch16_siglip_gap_224",
    "vit_medium_patch16_reg4_gap_256",
    "vit_medium_patch16_rope_reg1_gap_256",
    "eva_giant_patch14_224",
    "eva02_base_patch14_224",
)
FAMILIES = [
    pytest.param(n, marks=pytest.mark.skipif(not timm.is_model(n), reason="an older timm lacks it"))
    for n in NAMES
]


def sizes_of(name: str) -> dict[str, Any]:
    side = 14 if "patch14" in name else 16
    return dict(img_size=(3 * side, 5 * side))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Make timm create small models with random weights and biases, the same for each name."""
    real = timm.create_model

    def create(name: str, pretrained: bool = True, num_classes: int = 0) -> Any:
        options = SIZES | sizes_of(name) if "patch" in name else {}
        model = real(name, pretrained=False, num_classes=num_classes, **options)
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.2)
        return model.eval()

    monkeypatch.setattr(timm, "create_model", create)
    return create


def started(name: str, kind: type = VideoTransformer, **options: Any) -> Any:
    torch.manual_seed(1)
    model = kind(**{"arch": f"timm:{name}", "clip_len": 1, **sizes_of(name), **options})
    model.init_weights()
    return model.eval()


def tokens_of(image: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Class token with registers, and the others, (B, N, D)."""
    tokens = image.fc_norm(image.forward_features(pixels))
    return tuple(tokens.split([image.num_prefix_tokens, 15], dim=1))


@pytest.mark.parametrize("exact", [True, False], ids=["kept", "folded"])
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_features_are_those_of_timm(
    name: str, exact: bool, tiny: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if LayerScale is in the layers before it, and all biases exist."""
    image = tiny(name)
    model = started(name, **({} if exact else dict(layer_scale=None, qkv_bias=True)))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    pixels = torch.randn(2, 3, *image.patch_embed.img_size)
    tokens = model.forward_features(pixels[:, :, None])
    prefix, patches = tokens_of(image, pixels)
    torch.testing.assert_close(model.fc_norm(tokens.places)[:, 0].flatten(1, 2), patches, **CLOSE)
    if image.num_prefix_tokens:
        torch.testing.assert_close(model.fc_norm(tokens.prefix), prefix, **CLOSE)
    if image.attn_pool is None:  # a head
        torch.testing.assert_close(model(pixels[:, :, None]), image(pixels), **CLOSE)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_divided_attention_starts_as_the_image_model(name: str, tiny: Callable) -> None:
    """With one frame repeated, in three lines and without a config of the image model."""
    image = tiny(name)
    model = started(name, TimeSformer, clip_len=3, cls=None if "siglip" in name else "mean")
    pixels = torch.randn(2, 3, *image.patch_embed.img_size)
    tokens = model.forward_features(pixels[:, :, None].expand(-1, -1, 3, -1, -1))
    prefix, patches = tokens_of(image, pixels)
    if isinstance(image.norm, nn.Identity) and isinstance(
        image.fc_norm, nn.Identity
    ):  # then that of the scheme is new
        prefix, patches = model.encoders[0].norm(prefix), model.encoders[0].norm(patches)
    for frame in tokens.places.flatten(2, 3).unbind(1):
        torch.testing.assert_close(frame, patches, **CLOSE)
    torch.testing.assert_close(tokens.prefix, prefix, **CLOSE)


def test_tubelets_and_class_token_are_those_of_the_scheme(tiny: Callable) -> None:
    model = started("vit_base_patch14_dinov2", ViViT, scheme="spacetime", pool="mean", clip_len=4)
    assert model.embed.tubelet == (2, 14, 14) and model.encoders[0].cls_token is None
    assert model.encoders[0].blocks[0].mlp.act.approximate == "none"
    with pytest.raises(ValueError, match="registers=4 join as the class token does: cls must be"):
        started(
            "vit_base_patch14_reg4_dinov2", ViViT, scheme="factorized_self_attention", clip_len=2
        )


@pytest.mark.parametrize("name", ["deit3_base_patch16_224", "vit_base_patch14_reg4_dinov2"])
def test_tables_without_vectors_of_prefix_tokens_in_a_file(name: str, tiny: Callable) -> None:
    image = tiny(name)
    state = image.state_dict()
    table = "backbone.encoders.0.pos_embed.thw"
    found = from_timm(state, grid=(1, 3, 5)).state[table]
    assert torch.equal(found.flatten(1, 3), image.pos_embed)
    state["pos_embed"] = state["pos_embed"][:, :9]
    assert from_timm(state).state[table].shape == (1, 1, 3, 3, 48)
    assert not from_timm(state).state["backbone.encoders.0.pos_embed.cls"].any()


@torch.no_grad()
def test_other_sizes_are_those_of_timm(tiny: Callable) -> None:
    """Of a table that is resized when it is loaded, and of one in the forward pass."""
    image = tiny("vit_base_patch14_reg4_dinov2")
    pixels = torch.randn(2, 3, 56, 42)
    models = [started("vit_base_patch14_reg4_dinov2", img_size=(56, 42))]
    models.append(started("vit_base_patch14_reg4_dinov2"))
    image.set_input_size((56, 42))
    for model in models:
        torch.testing.assert_close(model(pixels[:, :, None]), image(pixels), **CLOSE)


@pytest.mark.parametrize(
    ("kind", "options", "tables"),
    [
        (TimeSformer, {}, [("hw", "t")]),
        (TimeSformer, dict(scheme="space_only"), [("hw",)]),
        (ViViT, {}, [("thw",), ("thw",)]),
        (FeatureFixationTransformer, {}, [("t",)]),
        (VideoTransformer, {}, [("thw",)]),
    ],
)
def test_all_models_resize_tables_as_timm(
    kind: type, options: dict, tables: list, tiny: Callable
) -> None:
    model = kind("timm:vit_base_patch16_224.mae", clip_len=4, img_size=32, **options)
    positions = [encoder.pos_embed for encoder in model.encoders]
    assert [one.tables for one in positions] == tables
    assert {one.rule for one in positions} == {"bicubic"}
    model = TimeSformer("timm:vit_base_patch16_224.mae", positions="space", img_size=32)
    assert model.encoders[0].pos_embed.rule == "linear"  # as the argument says


def test_weights_of_the_image_model_can_be_left_out(tiny: Callable) -> None:
    model = started("vit_base_patch14_dinov2", init_from=None)
    assert model.init_from is None
    assert torch.equal(model.encoders[0].blocks[0].scale.gamma, torch.ones(48))


def test_arguments(tiny: Callable) -> None:
    arch = dict(embed_dims=48, depth=2, num_heads=3, mlp_ratio=4.0)
    norm = dict(type="layer", eps=1e-5)
    assert arguments_of("timm:vit_base_patch16_dinov3") == dict(
        arch=arch,
        stem=dict(tubelet=(1, 16, 16)),
        positions="time",
        rope=dict(type="dinov3", base=100.0),
        cls="mean",
        registers=4,
        mlp=dict(type="mlp", act="gelu"),
        norm=norm,
        qkv_bias=False,
        layer_scale=1.0,
        pool="mean",
        init_from=dict(source="timm:vit_base_patch16_dinov3", positions="bicubic"),
    )
    assert arguments_of("timm:vit_base_patch16_clip_quickgelu_224.openai") == dict(
        arch=arch,
        stem=dict(tubelet=(1, 16, 16)),
        positions=dict(type="joint", rule="bicubic"),
        cls="mean",
        mlp=dict(type="mlp", act="quick_gelu"),
        norm=norm,
        norm_pre=True,
        init_from=dict(
            source="timm:vit_base_patch16_clip_quickgelu_224.openai", positions="bicubic"
        ),
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("vit_base_patch16_224", None),
        ("vit_base_patch16_clip_224", "norm=dict(type='layer', eps=1e-05), norm_pre=True"),
        (
            "vit_base_patch16_dinov3",
            "norm=dict(type='layer', eps=1e-05), rope=dict(type='dinov3', base=100.0), registers=4",
        ),
        (
            "vit_base_patch16_clip_quickgelu_224",
            "norm=dict(type='layer', eps=1e-05), norm_pre=True, mlp=dict(type='mlp', "
            "act='quick_gelu')",
        ),
    ],
)
def test_a_warning_names_the_arguments_that_differ(
    name: str, wanted: str | None, tiny: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither names nor shapes of weights tell them."""
    arch = dict(embed_dims=48, depth=2, num_heads=3)
    started(name, arch=arch, cls="mean", init_from=f"timm:{name}")
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    text = f"VideoTransformer computes other features than timm:{name}, which needs {wanted}"
    assert found == ([text] if wanted else [])


def test_the_log_tells_the_pixels_and_tanh(
    tiny: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="mmvidformer")
    mlp = dict(type="mlp", act="gelu_tanh")
    started("vit_base_patch14_dinov2", mlp=mlp)
    assert "which needs mlp=dict(type='mlp', act='gelu')" in caplog.messages[0]
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert "mean [123.675, 116.28, 103.53] and std [58.395, 57.12, 57.375]" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(arch=dict(embed_dims=24, depth=2, num_heads=3)), r"has shape \(24,"),
        (dict(arch=dict(embed_dims=48, depth=1, num_heads=3)), "depth of the model is 1"),
        (dict(stem=dict(tubelet=(1, 7, 7))), r"embed.proj.weight has shape \(48, 3, 1, 7, 7\)"),
    ],
)
def test_an_error_names_the_arch(options: dict, message: str, tiny: Callable) -> None:
    source = "timm:vit_base_patch14_dinov2"
    with pytest.raises(ValueError, match=f"{message}.*; arch='{source}' sets all that it needs"):
        started("vit_base_patch14_dinov2", init_from=source, **options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("resnet18", "it is a ResNet, not a VisionTransformer or Eva"),
        ("beit_base_patch16_224", "it is a Beit"),
        ("deit_base_distilled_patch16_224", "it is a VisionTransformerDistilled"),
        ("eva02_base_patch16_clip_224", "blocks.0.attn.norm is a LayerNorm, not Identity"),
        ("vit_base_patch16_rope_mixed_224", "rope is a RotaryEmbeddingMixed"),
        ("naflexvit_base_patch16_siglip", "it is a NaFlexVit, not a VisionTransformer or Eva"),
        ("vit_base_patch16_xp_224", "blocks.0 is a ParallelScalingBlock"),
        ("vit_small_patch15_dinov9", "Unknown model"),
    ],
)
def test_other_models_are_refused(name: str, reason: str, tiny: Callable) -> None:
    with pytest.raises(ValueError, match=f"timm:{name}.*{reason}") as error:
        arguments_of(f"timm:{name}")
    assert "\n" not in str(error.value)
