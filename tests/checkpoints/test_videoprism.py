"""VideoPrism: outputs equal those of transformers and of Google's code, in both directions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint, recognize
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.layers import POOLINGS
from mmvidformer.models import VideoTransformer

videoprism = pytest.importorskip("transformers.models.videoprism")  # not in 4.40
VideoPrismForVideoClassification = videoprism.VideoPrismForVideoClassification
VideoPrismVisionConfig = videoprism.VideoPrismVisionConfig
VideoPrismVisionModel = videoprism.VideoPrismVisionModel

SIZES: dict[str, Any] = dict(
    hidden_size=24,
    intermediate_size=96,
    num_attention_heads=2,
    num_spatial_layers=2,
    num_temporal_layers=1,
    num_frames=5,
    image_size=30,
    tubelet_size=[1, 6, 6],
    attn_logit_softcapping=2.0,  # low, so that it counts for random weights
    num_labels=5,
)


def make(model_class: type, **options: Any) -> Any:
    """Draw all weights; zero biases, and ones in norms, would hide errors."""
    torch.manual_seed(0)
    model = model_class(VideoPrismVisionConfig(**SIZES | options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


def clip(frames: int = 5, height: int = 30, width: int = 30) -> Tensor:
    return torch.rand(2, 3, frames, height, width, generator=torch.Generator().manual_seed(1))


def read(model: nn.Module) -> Conversion:
    meta: Any = model.config
    return convert_checkpoint(Checkpoint(dict(model.state_dict()), meta.to_dict()), "memory")[1]


@torch.no_grad()
def ours(result: Conversion, frames: Tensor) -> Tensor:
    """Tokens, or logits if there is a classifier."""
    parts: dict[str, dict] = {"backbone.": {}, "cls_head.pooling.": {}, "cls_head.fc_cls.": {}}
    for name, value in result.state.items():
        stem = next(stem for stem in parts if name.startswith(stem))
        parts[stem][name.removeprefix(stem)] = value
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    backbone.load_state_dict(parts["backbone."])
    tokens = backbone(frames)
    if not result.head:
        return tokens.flatten(1, 3)
    options = {key: x for key, x in result.head.items() if key not in ("pooling", "depth")}
    pooling = POOLINGS.build(result.head["pooling"], dim=tokens.shape[-1], **options).eval()
    pooling.load_state_dict(parts["cls_head.pooling."])
    return nn.functional.linear(pooling(tokens), **parts["cls_head.fc_cls."])


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    expected = expected.reshape(found.shape)  # transformers' logits have another axis
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [(5, 30, 30), (3, 30, 30), (8, 30, 30), (5, 42, 18), (7, 18, 48)])
def test_tokens_of_transformers(size: tuple[int, int, int]) -> None:
    """At other clip lengths and sizes of frames, too, whose positions are resized."""
    model = make(VideoPrismVisionModel)
    frames = clip(*size)
    with torch.no_grad():
        output = model(frames.transpose(1, 2), interpolate_pos_encoding=size != (5, 30, 30))
    result = read(model)
    assert result.num_heads == 2 and not result.ignored + result.missing + result.notes
    assert_equal(ours(result, frames), output.last_hidden_state)


def test_logits_of_transformers() -> None:
    model = make(VideoPrismForVideoClassification)
    with torch.no_grad():
        expected = model(clip().transpose(1, 2)).logits
    assert_equal(ours(read(model), clip()), expected)


@pytest.mark.parametrize("cap", [2.0, 50.0])
@pytest.mark.parametrize("model_class", [VideoPrismVisionModel, VideoPrismForVideoClassification])
def test_folders_in_both_directions(model_class: type, cap: float, tmp_path: Path) -> None:
    """Their folder, our file, and their folder again, with frames that are not square."""
    model = make(model_class, image_size=[24, 36], attn_logit_softcapping=cap)
    frames = clip(5, 24, 36)
    with torch.no_grad():
        expected = model(frames.transpose(1, 2))[0]
    model.save_pretrained(tmp_path / "theirs")
    name, result = read_model(tmp_path / "theirs")
    assert name == "videoprism"
    assert_equal(ours(result, frames), expected)
    convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    assert_equal(ours(read_model(tmp_path / "ours.pth")[1], frames), expected)
    convert_file(tmp_path / "ours.pth", tmp_path / "back", to="huggingface")
    back, info = model_class.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not info["unexpected_keys"] and not info["mismatched_keys"] and not info["missing_keys"]
    with torch.no_grad():
        assert_equal(back.eval()(frames.transpose(1, 2))[0], expected)


@pytest.mark.parametrize("dialect", ["huggingface", "flax"])
def test_names(dialect: str) -> None:
    state = read(make(VideoPrismVisionModel)).state
    there = to_other(state, "videoprism", dialect)
    if dialect == "huggingface":
        assert recognize(there) == "videoprism"
    expected = {"huggingface": "spatial_layers.1.mlp.fc1.bias", "flax": "spatial_ln/scale"}
    assert expected[dialect] in there and len(there) == len(state) + 2 * 3 * 2


@pytest.mark.parametrize("wrong", ["hidden_act", "name"])
def test_what_does_not_fit_is_told(wrong: str) -> None:
    model = make(VideoPrismVisionModel)
    state, meta = dict(model.state_dict()), model.config.to_dict()
    if wrong == "name":
        state["spatial_layers.0.other"] = torch.zeros(1)
    else:
        meta["hidden_act"] = "relu"
    with pytest.raises(ValueError, match="hidden_act must be gelu|unknown 1 names"):
        convert_checkpoint(Checkpoint(state, meta), "memory")


GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("case", ["a", "b"])
def test_tokens_of_google(case: str, tmp_path: Path) -> None:
    """``tests/golden/make_videoprism.py`` ran Google's code; case b has the stacked blocks."""
    with np.load(GOLDEN / f"videoprism_{case}.npz") as file:
        arrays = {name: file[name] for name in file.files}
    frames = torch.from_numpy(arrays.pop("input")).permute(0, 4, 1, 2, 3)
    expected = torch.from_numpy(arrays.pop("output"))
    heads, cap = int(arrays.pop("num_heads")), float(arrays.pop("cap"))
    np.savez(tmp_path / "flax.npz", **arrays)
    name, result = read_model(tmp_path / "flax.npz")
    assert name == "videoprism" and result.num_heads is None  # no published width
    result.num_heads = heads
    for encoder in result.settings["encoders"]:
        assert encoder["block"][0]["kernel"]["cap"] == 50.0  # that of all published models
        encoder["block"][0]["kernel"]["cap"] = cap
    assert_equal(ours(result, frames), expected)
