"""Which format a checkpoint has, and what its shapes tell."""

import math
from pathlib import Path

import pytest
import torch

from mmvidformer.checkpoints import FORMATS, convert_file, load_checkpoint, read_model, recognize
from mmvidformer.checkpoints.backbones import VIDEO_VITS, backbone_arguments
from mmvidformer.checkpoints.native import from_native
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.models import VideoTransformer, ViViT
from tests.checkpoints.test_formats import MSGPACK, tiny_model_1


def official(scheme: str) -> dict[str, torch.Tensor]:
    """A backbone of VideoMAE or V-JEPA 2 with the official names."""
    options = VIDEO_VITS[scheme] | dict(clip_len=4, img_size=16, stem=dict(tubelet=(2, 8, 8)))
    model = VideoTransformer(dict(embed_dims=24, depth=1, num_heads=1), **options)
    state = {f"backbone.{name}": value for name, value in model.state_dict().items()}
    return to_other(state, scheme, "official")


@pytest.mark.parametrize("prefix", ["", "module.backbone."])
def test_v_jepa_1_is_not_taken_for_v_jepa_2(prefix: str, tmp_path: Path) -> None:
    """Official files of both have a table of positions, which V-JEPA 1 alone adds to its tokens."""
    state = official("vjepa2") | {"pos_embed": torch.ones(1, 8, 24)}
    state = {prefix + name: value for name, value in state.items()}
    torch.save({"target_encoder": state, "encoder": state}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="may be V-JEPA 1, which adds .*pos_embed to its tokens"):
        convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
    assert not (tmp_path / "b.pth").exists()
    report = convert_file(tmp_path / "a.pth", tmp_path / "b.pth", scheme="vjepa2")
    assert "ignored: pos_embed\n" in report
    with pytest.raises(ValueError, match="the scheme is 'vjepa2', not 'spacetime'"):
        read_model(tmp_path / "a.pth", scheme="spacetime")


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        *(("videomae", "predictor.norm.weight"), ("videomae", "pooler.dense.weight")),
        *(("vjepa2", "mask_token"), ("vjepa2", "decoder.norm.weight")),
    ],
)
def test_what_another_format_ignores_is_unknown(scheme: str, name: str, tmp_path: Path) -> None:
    torch.save(official(scheme) | {name: torch.ones(1)}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=rf"unknown 1 names \[{name}\]"):
        read_model(tmp_path / "a.pth")


def test_contradicting_scheme(tmp_path: Path) -> None:
    convert_file(MSGPACK, tmp_path / "a.pth", grid=(4, 4, 6))
    with pytest.raises(ValueError, match="the scheme is 'factorized_encoder', not 'spacetime'"):
        read_model(tmp_path / "a.pth", scheme="spacetime")


def test_foreign_names_in_our_own_checkpoint(tmp_path: Path) -> None:
    tiny_model_1(tmp_path / "a.pth", odd=torch.zeros(1))
    with pytest.raises(ValueError, match=r"not part of a recognizer: \['odd'\]"):
        read_model(tmp_path / "a.pth")


def test_settings_by_the_shapes_of_a_scheme() -> None:
    arch = dict(embed_dims=28, depth=1, num_heads=2, mlp_ratio=math.nextafter(61 / 28, 3))
    settings = dict(scheme="spacetime", img_size=(16, 16), clip_len=4, stem=dict(tubelet=(2, 8, 8)))
    state = ViViT(arch, **settings).state_dict()
    assert state["encoders.0.blocks.0.mlp.fc1.weight"].shape[0] == 61  # int(28 * (61 / 28)) is 60
    result = from_native(state | {"data_preprocessor.mean": torch.zeros(3)}, scheme="spacetime")
    assert result.ignored == ["data_preprocessor.mean"]
    found = backbone_arguments(result)
    assert settings.items() <= found.items()
    again = ViViT(found["arch"] | {"num_heads": 2}, **{k: found[k] for k in found if k != "arch"})
    again.load_state_dict(state)


SIZES = dict(arch=dict(embed_dims=16, depth=1, num_heads=2), clip_len=2, img_size=32)


@pytest.mark.parametrize("positions", ["time", "space_time", "space"])
def test_a_composed_model_is_not_described_as_that_of_a_paper(positions: str, tmp_path) -> None:
    """Its composition is not in the weights: a joint one was described as a ViViT."""
    state = VideoTransformer(
        block=[{"pattern": "joint"}], positions=positions, **SIZES
    ).state_dict()
    assert backbone_arguments(from_native(state)) == {}
    meta = {"backbone": {"type": "VideoTransformer", "positions": positions, **SIZES}}
    torch.save({"state_dict": state, "meta": meta}, tmp_path / "a.pth")
    report = convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
    assert f"'positions': '{positions}'" in report
    content = torch.load(tmp_path / "b.pth", weights_only=True)
    assert content["meta"]["backbone"] == meta["backbone"]
    with pytest.raises(ValueError, match="not those of a ViViT: .*pos_embed.thw' is missing"):
        backbone_arguments(from_native(state, scheme="spacetime"))
    with pytest.raises(ValueError, match=r"HuggingFace has no model like .*a\.pth"):
        convert_file(tmp_path / "a.pth", tmp_path / "hf", to="huggingface")


def test_a_recurrent_recognizer_of_ours(tmp_path: Path) -> None:
    state = {"neck.layers.0.encode.conv.weight": torch.ones(4, 3, 3, 3)}
    torch.save({"state_dict": state, "optimizer": {}}, tmp_path / "a.pth")
    assert "format: mmvidformer" in convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
    content = torch.load(tmp_path / "b.pth", weights_only=True)
    assert content["state_dict"].keys() == state.keys()
    assert content["meta"] == {"converted_from": "mmvidformer", "backbone": {}}


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match=r"match none of .*scenic ViViT.*conv1.weight"):
        recognize({"conv1.weight": torch.zeros(1)})


def test_formats_are_recognized() -> None:
    states = {
        "mmvidformer": {"backbone.encoders.0.blocks.0.sublayers.joint.norm.bias": torch.zeros(1)},
        "scenic": load_checkpoint(MSGPACK).state,
        "google_npz": {
            "embedding/kernel": torch.zeros(8, 8, 3, 4),
            "Transformer/encoderblock_0/LayerNorm_0/scale": torch.zeros(4),
        },
        "videomae": {
            "patch_embed.proj.weight": torch.zeros(4, 3, 2, 8, 8),
            "blocks.0.attn.q_bias": torch.zeros(4),
        },
        "vjepa2": {
            "patch_embed.proj.weight": torch.zeros(4, 3, 2, 8, 8),
            "blocks.0.attn.qkv.bias": torch.zeros(12),
        },
        "levjepa": {
            "encoder.cls_token": torch.zeros(1, 1, 4),
            "encoder.patch_embed.proj.weight": torch.zeros(4, 3, 1, 8, 8),
            "encoder.blocks.0.attn.qkv.bias": torch.zeros(12),
        },
        "internvideo_next": {
            "pos_embed": torch.zeros(1, 8, 4),
            "patch_embed.norm_before.weight": torch.zeros(4),
            "blocks.0.attn.q_norm.weight": torch.zeros(4),
            "clip_projector.cross_attn.q_bias": torch.zeros(4),
            "patch_embed.proj.weight": torch.zeros(4, 3, 1, 8, 8),
        },
        "onevision": {
            "embeddings.patch_embedding.weight": torch.zeros(4, 3, 8, 8),
            "layernorm_pre.weight": torch.zeros(4),
            "encoder.layers.0.self_attn.q_proj.weight": torch.zeros(4, 4),
        },
        "vjepa2_1": {
            "patch_embed.proj.weight": torch.zeros(4, 3, 2, 8, 8),
            "video_mod_embed": torch.zeros(1, 1, 4),
            "norms_block.0.weight": torch.zeros(4),
        },
        "huggingface": {
            "vivit.embeddings.cls_token": torch.zeros(1, 1, 4),
            "vivit.embeddings.patch_embeddings.projection.weight": torch.zeros(4, 3, 2, 8, 8),
        },
        "timesformer": {
            "model.pos_embed": torch.zeros(1, 5, 4),
            "model.patch_embed.proj.weight": torch.zeros(4, 3, 8, 8),
        },
        "feature_fixation": {
            "temp_embed": torch.zeros(1, 2, 1, 4),
            "patch_embed.proj.weight": torch.zeros(4, 3, 8, 8),
            "blocks.0.attn.qkv.weight": torch.zeros(12, 4),
        },
        "videoprism": {"spatial_encoder/transformers_stack/x_layers/ff_layer": torch.zeros(1)},
        "streamformer": {"timesformer.encoder.layer.0.temporal_attention_gating": torch.zeros(1)},
        "trecvit": {"x/residualblock_0/recurrent_block/rg_lru/a_param": torch.zeros(1)},
        "bn_inception": {
            "module.base_model.conv1_7x7_s2.weight": torch.zeros(64, 3, 7, 7),
            "module.base_model.inception_5b_pool_proj.weight": torch.zeros(128, 1024, 1, 1),
        },
        "dinov3": {
            "storage_tokens": torch.zeros(1, 4, 4),
            "patch_embed.proj.weight": torch.zeros(4, 3, 8, 8),
            "blocks.0.attn.qkv.weight": torch.zeros(12, 4),
        },
        "timm": {
            "patch_embed.proj.weight": torch.zeros(4, 3, 8, 8),
            "blocks.0.attn.qkv.weight": torch.zeros(12, 4),
        },
        "huggingface_image": {
            "vit.embeddings.patch_embeddings.projection.weight": torch.zeros(4, 3, 8, 8),
        },
    }
    assert states.keys() == FORMATS.keys()
    for name, state in states.items():
        assert recognize(state) == name
