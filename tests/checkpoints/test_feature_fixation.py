from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from timm.models import VisionTransformer
from torch import nn

from mmvidformer.checkpoints import convert_file, init_from_image, recognize
from mmvidformer.checkpoints.keymap import State, revert
from mmvidformer.checkpoints.video_models import fixation_rules, from_feature_fixation
from mmvidformer.models import FeatureFixationTransformer
from mmvidformer.models.feature_fixation import STEM
from mmvidformer.models.heads import TokenMlpHead

ARCH = {"embed_dims": 16, "depth": 2, "num_heads": 2}


def recognizer(**kwargs) -> nn.ModuleDict:
    torch.manual_seed(0)
    backbone = FeatureFixationTransformer(ARCH, img_size=32, clip_len=3, **kwargs)
    head = TokenMlpHead(num_classes=5, in_channels=16, hidden_dim=12)
    model = nn.ModuleDict({"backbone": backbone, "cls_head": head})
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.eval()


def official(
    state: State, attention: str = "time_space", fixation: str | None = "qkv_shared"
) -> State:
    """Rename weights as the official code does."""
    converted = revert(state, fixation_rules(attention, fixation))
    head = "consensus.mlp_head."
    return {k if k.startswith(head) else f"base_model.{k}": v for k, v in converted.items()}


def test_initialized_from_a_timm_vit(
    image_vit: Callable[..., VisionTransformer], tmp_path: Path
) -> None:
    image = image_vit()
    torch.save(image.state_dict(), tmp_path / "vit.pth")
    arch = {"embed_dims": 32, "depth": 2, "num_heads": 4}
    stem = {"tubelet": (1, 8, 8), "stride": (1, 7, 7), "padding": (0, 4, 4), "norm": True}
    model = FeatureFixationTransformer(arch, img_size=32, clip_len=3, stem=stem)
    _, _, kept = init_from_image(model, tmp_path / "vit.pth", temporal="copy_with_norm")
    assert torch.equal(model.embed.proj.weight[:, :, 0], image.patch_embed.proj.weight)
    for sublayer in model.encoders[0].blocks[1].sublayers.values():
        assert torch.equal(sublayer.attn.qkv.weight, image.blocks[1].attn.qkv.weight)
        assert torch.equal(sublayer.norm.bias, image.blocks[1].norm1.bias)
    left = {name.split(".")[-2] for name in kept}
    assert left == {"norm", "qk", "conv"}  # of the stem, gates, depthwise
    assert not model.encoders[0].pos_embed.t.any()


@pytest.mark.parametrize("attention", ["time_space", "joint"])
@pytest.mark.parametrize("fixation", ["qkv_shared", "qkv", None])
def test_round_trip(attention: str, fixation: str | None) -> None:
    state = recognizer(scheme=attention, fixation=fixation).state_dict()
    theirs = official(state, attention, fixation)
    assert theirs["base_model.temp_embed"].shape == (1, 3, 1, 16)
    assert theirs["base_model.patch_embed.proj.weight"].shape == (16, 3, 16, 16)
    assert theirs["consensus.mlp_head.4.weight"].shape == (5, 12)
    assert recognize(theirs) == "feature_fixation"
    back = from_feature_fixation(theirs)
    assert back.scheme == attention
    assert back.num_heads == (2 if fixation else None)
    assert back.state.keys() == state.keys()
    for name, value in state.items():
        torch.testing.assert_close(back.state[name], value, atol=0, rtol=0)


def test_official_names_of_the_sublayers() -> None:
    """``attn`` and ``norm1`` are those over space."""
    state = recognizer().state_dict()
    theirs = official(state)
    block = "backbone.encoders.0.blocks.1.sublayers"
    for name, ours in {
        "attn.qkv.weight": f"{block}.space.attn.qkv.weight",
        "norm1.bias": f"{block}.space.norm.bias",
        "temporal_norm1.weight": f"{block}.time.norm.weight",
        "temporal_attn.pgate.weight": f"{block}.time.attn.prepare.fixation.gates.qk.weight",
    }.items():
        assert torch.equal(theirs[f"base_model.blocks.1.{name}"], state[ours])


def test_unused_missing_and_unknown_names_are_listed() -> None:
    theirs = official(recognizer().state_dict())
    theirs |= {"new_fc.weight": torch.zeros(5, 16), "new_fc.bias": torch.zeros(5)}
    assert from_feature_fixation(theirs).ignored == ["new_fc.weight", "new_fc.bias"]
    theirs["base_model.extra"] = theirs.pop("base_model.blocks.1.attn.pgate.bias")
    with pytest.raises(ValueError, match=r"blocks\.1\.attn\.pgate\.bias.*unknown.*extra"):
        from_feature_fixation(theirs)


def test_converted_file_gives_the_same_logits(tmp_path: Path) -> None:
    model = recognizer()
    theirs = {f"module.{k}": v for k, v in official(model.state_dict()).items()}
    torch.save({"model_state": theirs, "epoch": 3}, tmp_path / "a.pyth")
    report = convert_file(tmp_path / "a.pyth", tmp_path / "b.pth")
    assert "format: linear video transformer" in report
    assert "note: shifts and kernel have no weights" in report

    converted = torch.load(tmp_path / "b.pth", weights_only=True)
    settings = converted["meta"]["backbone"]
    assert settings.pop("type") == "FeatureFixationTransformer"
    assert settings == {
        "arch": {"embed_dims": 16, "depth": 2, "mlp_ratio": 4.0, "num_heads": 2},
        "scheme": "time_space",
        "clip_len": 3,
        "stem": STEM,
        "fixation": "qkv_shared",
    }
    again = nn.ModuleDict(
        {
            "backbone": FeatureFixationTransformer(**settings),
            "cls_head": TokenMlpHead(num_classes=5, in_channels=16, hidden_dim=12),
        }
    ).eval()
    again.load_state_dict(converted["state_dict"])
    clip = torch.randn(1, 3, 3, 32, 48)
    with torch.no_grad():
        logits, expected = (m["cls_head"](m["backbone"](clip)) for m in (again, model))
    torch.testing.assert_close(logits, expected)

    with pytest.raises(
        ValueError, match=r"HuggingFace has no model like .*b\.pth \(mmvidformer\) with scheme"
    ):
        convert_file(tmp_path / "b.pth", tmp_path / "hf", to="huggingface")
    assert "format: mmvidformer" in convert_file(tmp_path / "b.pth", tmp_path / "c.pth")
