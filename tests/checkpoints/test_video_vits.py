"""VideoMAE and V-JEPA 2: outputs equal transformers', and names survive in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import VideoMAEConfig, VideoMAEForPreTraining, VideoMAEForVideoClassification

from mmvidformer.apis import Recognizer
from mmvidformer.checkpoints import convert_file, load_checkpoint, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint, recognize
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import from_videomae, from_vjepa2, to_other
from mmvidformer.layers import AttentivePooling
from mmvidformer.models import VideoTransformer

hf_vjepa2 = pytest.importorskip("transformers.models.vjepa2")  # not in 4.40

SMALL = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, num_labels=5)
VIDEOMAE = dict(SMALL, image_size=40, patch_size=8, num_frames=6, intermediate_size=36)
VJEPA2 = dict(
    **{**SMALL, "hidden_size": 40},
    **dict(crop_size=40, patch_size=8, frames_per_clip=6, num_pooler_layers=2),
    **dict(pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1),
)


def random(model: torch.nn.Module) -> Any:
    """Draw all weights; zero biases, and ones in norms, would hide errors."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model.eval()


@pytest.fixture(scope="module")
def videomae() -> VideoMAEForVideoClassification:
    return random(VideoMAEForVideoClassification(VideoMAEConfig(**VIDEOMAE)))


@pytest.fixture(scope="module")
def vjepa2() -> hf_vjepa2.VJEPA2ForVideoClassification:
    return random(hf_vjepa2.VJEPA2ForVideoClassification(hf_vjepa2.VJEPA2Config(**VJEPA2)))


def clip(frames: int = 6, side: int = 40) -> torch.Tensor:
    return torch.randn(2, 3, frames, side, side, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def theirs(model: torch.nn.Module, clip: torch.Tensor) -> torch.Tensor:
    return model(clip.transpose(1, 2)).logits


@torch.no_grad()
def ours(result: Conversion, clip: torch.Tensor) -> torch.Tensor:
    parts: dict[str, dict] = {"backbone.": {}, "cls_head.pooling.": {}, "cls_head.fc_cls.": {}}
    for name, value in result.state.items():
        stem = next(stem for stem in parts if name.startswith(stem))
        parts[stem][name.removeprefix(stem)] = value
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    backbone.load_state_dict(parts["backbone."])
    features = backbone(clip)
    if result.head:
        pooling = AttentivePooling(features.shape[-1], **result.head).eval()
        pooling.load_state_dict(parts["cls_head.pooling."])
        features = pooling(features)
    return torch.nn.functional.linear(features, **parts["cls_head.fc_cls."])


def read(model: torch.nn.Module) -> Conversion:
    """Convert the weights and the config of a model in memory."""
    meta = model.config.to_dict()
    return convert_checkpoint(Checkpoint(dict(model.state_dict()), meta), "memory")[1]


def test_videomae_gives_transformers_logits(videomae: VideoMAEForVideoClassification) -> None:
    result = read(videomae)
    assert result.settings["norm"]["eps"] == 1e-12 and result.settings["fc_norm"]["eps"] == 1e-5
    assert result.scheme == "videomae" and not result.ignored + result.missing + result.notes
    expected = theirs(videomae, clip())
    assert expected.std() > 0.1
    torch.testing.assert_close(ours(result, clip()), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("frames", [6, 4, 10])
def test_vjepa2_gives_transformers_logits(
    vjepa2: hf_vjepa2.VJEPA2ForVideoClassification, frames: int
) -> None:
    """At other clip lengths too; transformers cannot take other image sizes."""
    result = read(vjepa2)
    assert result.head == dict(num_heads=2, depth=2, norm="layer")
    assert result.scheme == "vjepa2" and not result.missing
    assert all(name.startswith("vjepa2.predictor.") for name in result.ignored)
    expected = theirs(vjepa2, clip(frames))
    assert expected.std() > 0.1
    torch.testing.assert_close(ours(result, clip(frames)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["videomae", "vjepa2"])
def test_folders_in_both_directions(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Their folder, our file, and their folder again; transformers writes q_bias and v_bias."""
    model = request.getfixturevalue(name)
    model.save_pretrained(tmp_path / "theirs")
    found, result = read_model(tmp_path / "theirs")
    assert found == name
    expected = theirs(model, clip())
    torch.testing.assert_close(ours(result, clip()), expected, atol=1e-5, rtol=1e-5)
    convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    torch.testing.assert_close(ours(read_model(tmp_path / "ours.pth")[1], clip()), expected)
    convert_file(tmp_path / "ours.pth", tmp_path / "back", to="huggingface")
    back, info = type(model).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not info["unexpected_keys"] and not info["mismatched_keys"]
    assert all("predictor" in key for key in info["missing_keys"])
    torch.testing.assert_close(theirs(back.eval(), clip()), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dialect", ["official", "mmaction", "huggingface", "modules"])
def test_names_of_videomae(videomae: VideoMAEForVideoClassification, dialect: str) -> None:
    state = from_videomae(videomae.state_dict()).state
    there = to_other(state, "videomae", dialect)
    assert recognize(there) == "videomae"
    back = from_videomae(there).state
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


@pytest.mark.parametrize("dialect", ["official", "huggingface"])
def test_names_of_vjepa2(vjepa2: hf_vjepa2.VJEPA2ForVideoClassification, dialect: str) -> None:
    state = from_vjepa2(vjepa2.state_dict()).state
    there = to_other(state, "vjepa2", dialect)
    assert recognize(there) == "vjepa2"
    back = from_vjepa2(there).state
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_mmaction_has_the_names_and_the_logits() -> None:
    from mmaction.models.backbones.vit_mae import VisionTransformer

    torch.manual_seed(0)
    sizes = dict(img_size=24, patch_size=8, num_frames=6, embed_dims=24, depth=2, num_heads=2)
    model = random(VisionTransformer(mlp_ratio=2, **sizes))
    model.pos_embed.copy_(VisionTransformer(**sizes).pos_embed)
    state = {f"backbone.{name}": x for name, x in model.state_dict().items()}
    state["backbone.pos_embed"] = model.pos_embed
    state |= {"cls_head.fc_cls.weight": torch.eye(24), "cls_head.fc_cls.bias": torch.zeros(24)}
    result = from_videomae(state)
    assert result.ignored == ["backbone.pos_embed"] and not result.missing
    result.num_heads, result.settings = 2, dict(clip_len=6, img_size=(24, 24))
    with torch.no_grad():
        expected = model(clip(6, 24))
    torch.testing.assert_close(ours(result, clip(6, 24)), expected, atol=1e-5, rtol=1e-5)
    state["backbone.pos_embed"] = model.pos_embed + 0.1
    with pytest.raises(ValueError, match="pos_embed must be VideoMAE's fixed table"):
        from_videomae(state)


def official(state: dict, prefix: str) -> dict:
    return {prefix + name: value for name, value in state.items()}


def test_wrappers_of_the_official_code(
    videomae: VideoMAEForVideoClassification,
    vjepa2: hf_vjepa2.VJEPA2ForVideoClassification,
    tmp_path: Path,
) -> None:
    """Prefixes, the two encoders of a V-JEPA file, and its attentive probe in a file of its own."""
    state = from_videomae(videomae.state_dict()).state
    names = to_other(state, "videomae", "official")
    torch.save({"module": official(names, "_orig_mod.")}, tmp_path / "a.pth")
    assert read_model(tmp_path / "a.pth")[1].state.keys() == state.keys()

    state = from_vjepa2(vjepa2.state_dict()).state
    names = to_other(state, "vjepa2", "official")
    head = {k: x for k, x in names.items() if k.startswith(("pooler.", "linear."))}
    body = official({k: x for k, x in names.items() if k not in head}, "module.backbone.")
    body["module.backbone.pos_embed"] = torch.zeros(1, 8, 40)
    student = {name: torch.zeros_like(x) for name, x in body.items()}
    files = {"encoder": student, "predictor": {}, "target_encoder": body, "opt": {}}
    torch.save(files, tmp_path / "encoder.pt")
    torch.save({"classifiers": [official(head, "module.")]}, tmp_path / "probe.pt")
    encoder = read_model(tmp_path / "encoder.pt", scheme="vjepa2")[1]
    probe = read_model(tmp_path / "probe.pt")[1]
    assert encoder.ignored == ["pos_embed"]
    both = encoder.state | probe.state
    assert both.keys() == state.keys()
    assert all(torch.equal(both[name], state[name]) for name in state)
    assert probe.head == dict(num_heads=16, depth=2, norm=dict(type="layer", eps=1e-5))


def test_pretrained_encoders_keep_their_norm(tmp_path: Path) -> None:
    config = VideoMAEConfig(**VIDEOMAE, use_mean_pooling=False)
    sizes = dict(decoder_hidden_size=12, decoder_num_hidden_layers=1, decoder_num_attention_heads=1)
    config.update({**sizes, "decoder_intermediate_size": 24})
    model = random(VideoMAEForPreTraining(config))
    model.save_pretrained(tmp_path)
    _, result = read_model(tmp_path)
    assert all("decoder" in name or "mask_token" in name for name in result.ignored)
    settings = backbone_arguments(result)
    assert settings["fc_norm"] is None
    backbone = VideoTransformer(**settings, pool="none").eval()
    backbone.load_state_dict({k.removeprefix("backbone."): v for k, v in result.state.items()})
    with torch.no_grad():
        expected = model.videomae(clip().transpose(1, 2)).last_hidden_state
    torch.testing.assert_close(backbone(clip()).flatten(1, 3), expected, atol=1e-5, rtol=1e-5)
    state = {k: v for k, v in model.state_dict().items() if "videomae.layernorm" not in k}
    with pytest.raises(ValueError, match="a pretraining checkpoint with use_mean_pooling=True"):
        from_videomae(state)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_classifiers_of_the_first_token_are_left_out(tmp_path: Path, prefix: str) -> None:
    """transformers' and the official models without ``fc_norm`` average no tokens."""
    model = random(
        VideoMAEForVideoClassification(VideoMAEConfig(**VIDEOMAE, use_mean_pooling=False))
    )
    found = [read(model)]
    names = to_other(found[0].state, "videomae", "official")
    names |= {"head.weight": model.classifier.weight, "head.bias": model.classifier.bias}
    found.append(from_videomae(official(names, prefix)))
    for result in found:
        assert len(result.ignored) == 2 and "reads the first token" in result.notes[0]
        assert result.missing == ["cls_head.fc_cls.weight", "cls_head.fc_cls.bias"]
    with torch.no_grad():
        expected = model.videomae(clip().transpose(1, 2)).last_hidden_state
    backbone = VideoTransformer(**backbone_arguments(found[0]), pool="none").eval()
    backbone.load_state_dict({k[9:]: x for k, x in found[0].state.items()})
    torch.testing.assert_close(backbone(clip()).flatten(1, 3), expected, atol=1e-5, rtol=1e-5)
    head = {"cls_head.fc_cls.weight": torch.zeros(5, 24), "cls_head.fc_cls.bias": torch.zeros(5)}
    torch.save({"state_dict": found[0].state | head}, tmp_path / "own.pth")
    with pytest.raises(ValueError, match="classifier reads the first token if"):
        convert_file(
            tmp_path / "own.pth", tmp_path / "out", "huggingface", scheme="videomae", num_heads=2
        )


def test_videomae_without_biases_is_not_taken_for_vivit() -> None:
    config = VideoMAEConfig(**VIDEOMAE, qkv_bias=False)
    with pytest.raises(ValueError, match="match none of the formats"):
        read(VideoMAEForVideoClassification(config))


def test_what_is_wrong_with_published_files_is_told(
    videomae: VideoMAEForVideoClassification,
) -> None:
    """Biases that transformers lost, and 16 heads of the small model, which has 6."""
    state = {k: x * 0 if ".query.bias" in k or ".value.bias" in k else x
             for k, x in videomae.state_dict().items()}  # fmt: skip
    assert "transformers 5 before" in from_videomae(state).notes[0]
    config = VideoMAEConfig(**{**VIDEOMAE, "hidden_size": 384, "num_attention_heads": 16})
    result = read(random(VideoMAEForVideoClassification(config)))
    assert result.num_heads == 6 and "config.json says 16" in result.notes[0]


def test_half_precision_loads(videomae: VideoMAEForVideoClassification, tmp_path: Path) -> None:
    torch.save(official(videomae.half().state_dict(), ""), tmp_path / "half.pth")
    videomae.float()
    state = load_checkpoint(tmp_path / "half.pth").state
    result = from_videomae(state, meta=videomae.config.to_dict())
    assert {x.dtype for x in result.state.values()} == {torch.float16}
    backbone = VideoTransformer(**backbone_arguments(result))
    backbone.load_state_dict(
        {k[9:]: x for k, x in result.state.items() if k.startswith("backbone.")}
    )
    assert {x.dtype for x in backbone.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize("name", ["videomae", "vjepa2"])
def test_a_folder_is_a_recognizer(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Without any argument: model, classes, clips and pixels are those of the folder."""
    model = request.getfixturevalue(name)
    model.save_pretrained(tmp_path)
    statistics = dict(image_mean=[0.5] * 3, image_std=[0.25] * 3)
    file = "video_preprocessor_config.json" if name == "vjepa2" else "preprocessor_config.json"
    (tmp_path / file).write_text(json.dumps(statistics))
    recognizer = Recognizer(tmp_path, device="cpu")
    preprocessor = recognizer.cfg.model.data_preprocessor
    assert preprocessor.mean == [127.5] * 3 and preprocessor.std == [63.75] * 3
    crops = [t.crop_size for t in recognizer.cfg.test_pipeline if "crop_size" in t]
    assert crops == [40]
    with torch.no_grad():
        found = recognizer.model(clip()[:, None], mode="tensor")
        logits = recognizer.model.cls_head(found)
    torch.testing.assert_close(logits, theirs(model, clip()), atol=1e-5, rtol=1e-5)
    frames = torch.randint(256, (30, 50, 60, 3), dtype=torch.uint8).numpy()
    assert len(recognizer(frames).scores["class"]) == 5
