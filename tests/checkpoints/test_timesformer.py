from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.checkpoints import convert_file
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.metadata import read_info
from mmvidformer.checkpoints.video_models import DIALECTS, from_timesformer, to_other
from mmvidformer.models import TimeSformer

TYPES = ["space_only", "joint_space_time", "divided_space_time"]
ARCH = {"embed_dims": 16, "depth": 2, "num_heads": 2}


def ours(attention: str, **kwargs) -> TimeSformer:
    size = {"img_size": (16, 24), "clip_len": 3, "stem": {"tubelet": (1, 8, 8)}, **kwargs}
    return TimeSformer(ARCH, attention, **size).eval()


def random_state(attention: str) -> dict[str, torch.Tensor]:
    model = ours(attention)
    state = {f"backbone.{name}": torch.randn_like(p) for name, p in model.state_dict().items()}
    head = {"cls_head.fc_cls.weight": torch.randn(5, 16), "cls_head.fc_cls.bias": torch.randn(5)}
    return {**state, **head}


def shake(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def backbone_of(state: dict[str, torch.Tensor], attention: str, **kwargs) -> TimeSformer:
    model = ours(attention, **kwargs)
    prefix = "backbone."
    model.load_state_dict(
        {name.removeprefix(prefix): v for name, v in state.items() if name.startswith(prefix)}
    )
    return model


@pytest.mark.parametrize("dialect", DIALECTS.values())
@pytest.mark.parametrize("attention", TYPES)
def test_round_trip(attention: str, dialect: str) -> None:
    state = random_state(attention)
    theirs = to_other(state, attention, dialect)
    back = from_timesformer(theirs, grid=(1, 2, 3))
    assert back.scheme == attention
    assert back.state.keys() == state.keys()
    for name, value in state.items():
        torch.testing.assert_close(back.state[name], value, atol=0, rtol=0)


@pytest.mark.parametrize("attention", TYPES)
def test_mmaction_gives_the_same_features_and_loads_the_way_back(attention: str) -> None:
    from mmaction.registry import MODELS

    with DefaultScope.overwrite_default_scope("mmaction"):
        theirs = MODELS.build(
            {
                "type": "TimeSformer",
                "num_frames": 3,
                "img_size": 16,
                "patch_size": 8,
                "embed_dims": 16,
                "num_heads": 2,
                "num_transformer_layers": 2,
                "attention_type": attention,
                "norm_cfg": {"type": "LN", "eps": 1e-6},
            }
        )
    shake(theirs)
    state = {f"backbone.{name}": value for name, value in theirs.state_dict().items()}
    result = from_timesformer(state)
    assert result.scheme == attention
    model = backbone_of(result.state, attention, img_size=16)
    clip = torch.randn(2, 3, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(model(clip), theirs(clip), atol=1e-4, rtol=1e-4)
    back = to_other(result.state, attention, "mmaction")
    assert back.keys() == state.keys()


@pytest.mark.parametrize("attention", TYPES)
def test_huggingface_gives_the_same_logits_and_loads_the_way_back(attention: str) -> None:
    from transformers import TimesformerConfig, TimesformerForVideoClassification

    # Its space_only does not average over frames: compared frame by frame.
    frames = 1 if attention == "space_only" else 3
    config = TimesformerConfig(
        image_size=16,
        patch_size=8,
        num_frames=frames,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=5,
        attention_type=attention,
    )
    theirs = shake(TimesformerForVideoClassification(config))
    result = from_timesformer(theirs.state_dict(), meta=config.to_dict())
    assert result.scheme == attention
    assert backbone_arguments(result)["clip_len"] == frames  # also where no table tells
    model = backbone_of(result.state, attention, img_size=16, clip_len=frames)
    clip = torch.randn(2, 3, frames, 16, 16)
    with torch.no_grad():
        weight, bias = (result.state[f"cls_head.fc_cls.{kind}"] for kind in ("weight", "bias"))
        logits = nn.functional.linear(model(clip), weight, bias)
        expected = theirs(clip.transpose(1, 2)).logits
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
    theirs.load_state_dict(to_other(result.state, attention, "huggingface"), strict=True)


def test_missing_and_unknown_names_are_listed() -> None:
    theirs = to_other(random_state("divided_space_time"), "divided_space_time", "official")
    theirs["model.extra.weight"] = theirs.pop("model.blocks.1.temporal_fc.bias")
    with pytest.raises(ValueError, match=r"temporal_fc\.bias.*unknown.*extra\.weight"):
        from_timesformer(theirs, grid=(1, 2, 3))
    with pytest.raises(ValueError, match="no square frame"):
        from_timesformer(to_other(random_state("space_only"), "space_only", "official"))
    with pytest.raises(ValueError, match=r"missing.*model\.cls_token.*mystery"):
        from_timesformer({"mystery": torch.zeros(1)})


def huggingface(**options: object) -> nn.Module:
    from transformers import TimesformerConfig, TimesformerForVideoClassification

    sizes = dict(image_size=16, patch_size=8, num_frames=3, hidden_size=16, num_hidden_layers=2)
    config = TimesformerConfig(
        **sizes, num_attention_heads=4, intermediate_size=32, num_labels=5, **options
    )
    return shake(TimesformerForVideoClassification(config))


def test_huggingface_folder_contains_the_number_of_heads(tmp_path: Path) -> None:
    theirs = huggingface()
    theirs.save_pretrained(tmp_path / "hf")
    report = convert_file(tmp_path / "hf", tmp_path / "a.pth")
    assert "note" not in report
    converted = torch.load(tmp_path / "a.pth", weights_only=True)
    settings, state = converted["meta"]["backbone"], converted["state_dict"]
    assert settings["arch"] == dict(embed_dims=16, depth=2, mlp_ratio=2.0, num_heads=4)
    assert settings.pop("type") == "TimeSformer"
    model = TimeSformer(**settings).eval()
    model.load_state_dict(
        {k.removeprefix("backbone."): v for k, v in state.items() if k.startswith("backbone.")}
    )
    clip = torch.randn(2, 3, 3, 16, 16)
    with torch.no_grad():
        weight, bias = (state[f"cls_head.fc_cls.{kind}"] for kind in ("weight", "bias"))
        logits = nn.functional.linear(model(clip), weight, bias)
        torch.testing.assert_close(
            logits, theirs(clip.transpose(1, 2)).logits, atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize("option", [{"hidden_act": "relu"}, {"layer_norm_eps": 1e-12}])
def test_other_huggingface_models_are_refused(option: dict, tmp_path: Path) -> None:
    huggingface(**option).save_pretrained(tmp_path / "hf")
    with pytest.raises(ValueError, match=rf"{next(iter(option))} must be .*got"):
        convert_file(tmp_path / "hf", tmp_path / "a.pth")


def test_trained_checkpoints_need_their_scheme_for_huggingface(tmp_path: Path) -> None:
    state = {
        f"backbone.{k}": v for k, v in ours("joint_space_time", img_size=16).state_dict().items()
    }
    torch.save({"state_dict": state}, tmp_path / "a.pth")
    arguments = dict(
        source=tmp_path / "a.pth", target=tmp_path / "hf", to="huggingface", num_heads=2
    )
    with pytest.raises(ValueError, match="give the scheme if it is one of spacetime, space_only"):
        convert_file(**arguments)
    convert_file(**arguments, scheme="joint_space_time")
    assert '"attention_type": "joint_space_time"' in (tmp_path / "hf" / "config.json").read_text()
    with pytest.raises(ValueError, match="HuggingFace has no model like .* with scheme 'axial'"):
        convert_file(**arguments, scheme="axial")
    wide = ours("joint_space_time", img_size=(16, 32)).state_dict()
    torch.save({"state_dict": {f"backbone.{k}": v for k, v in wide.items()}}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="needs square frames, got 16 x 32"):
        convert_file(**arguments, scheme="joint_space_time")


@pytest.mark.parametrize("text", ["model = dict(a=[1, 2)\n: :", "- 1", "DATA: {MEAN: 1}", 7])
def test_settings_of_other_programs_are_not_read(text: object) -> None:
    assert read_info({"cfg": text}) == {}


def test_official_file_becomes_a_huggingface_folder(tmp_path: Path) -> None:
    from transformers import AutoImageProcessor, TimesformerForVideoClassification

    theirs = shake(ours("divided_space_time", img_size=16))
    state = {f"backbone.{name}": value for name, value in theirs.state_dict().items()}
    state |= {"cls_head.fc_cls.weight": torch.randn(5, 16), "cls_head.fc_cls.bias": torch.zeros(5)}
    official = to_other(state, "divided_space_time", "official")
    pixels = "DATA: {MEAN: [0.4, 0.45, 0.5], STD: [0.2, 0.25, 0.3], SAMPLING_RATE: 8}"
    torch.save({"model_state": official, "epoch": 3, "cfg": pixels}, tmp_path / "a.pyth")

    report = convert_file(tmp_path / "a.pyth", tmp_path / "b.pth")
    assert "note: the source does not contain num_heads; add it to arch" in report
    report = convert_file(tmp_path / "a.pyth", tmp_path / "b.pth", num_heads=2)
    assert "note" not in report
    assert "format: TimeSformer" in report
    converted = torch.load(tmp_path / "b.pth", weights_only=True)
    settings = converted["meta"]["backbone"]
    assert settings == {
        "type": "TimeSformer",
        "arch": {"embed_dims": 16, "depth": 2, "mlp_ratio": 4.0, "num_heads": 2},
        "scheme": "divided_space_time",
        "img_size": (16, 16),
        "clip_len": 3,
        "stem": {"tubelet": (1, 8, 8)},
    }
    for name, value in state.items():
        torch.testing.assert_close(converted["state_dict"][name], value, atol=0, rtol=0)

    convert_file(tmp_path / "b.pth", tmp_path / "hf", to="huggingface")
    processor = AutoImageProcessor.from_pretrained(tmp_path / "hf")
    frame = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    found = processor([frame] * 3, return_tensors="pt")["pixel_values"]
    expected = (frame[:, 4:20] / 255 - [0.4, 0.45, 0.5]) / [0.2, 0.25, 0.3]
    np.testing.assert_allclose(found[0, 1].permute(1, 2, 0), expected, atol=1e-3)
    loaded = TimesformerForVideoClassification.from_pretrained(tmp_path / "hf").eval()
    clip = torch.randn(1, 3, 3, 16, 16)
    with torch.no_grad():
        logits = nn.functional.linear(
            theirs(clip), state["cls_head.fc_cls.weight"], state["cls_head.fc_cls.bias"]
        )
        torch.testing.assert_close(
            loaded(clip.transpose(1, 2)).logits, logits, atol=1e-4, rtol=1e-4
        )
